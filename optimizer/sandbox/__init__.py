"""Starts children and talks to them. Every child is confined unless the run is trusted.

`start(ChildSpec(...))` gives a `Child`: `call` an operation, `pause`/`resume` it while others are measured, `kill` it.
"""

from optimizer.sandbox.child import Child, ChildFailed, ChildSpec, Limits, Reply, start
from optimizer.sandbox.choose import Description, describe

__all__ = ["Child", "ChildFailed", "ChildSpec", "Description", "Limits", "Reply", "describe", "start"]
