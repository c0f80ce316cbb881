"""The optimizer: reads one spec, emits events, leaves `result.json` and artifacts. `python -m optimizer` runs it.

Nothing here imports torch at module level outside of the code that runs in children (`*/child.py`, `capturing/`
readers, `optimizing/passes/`, `compiling/backends/`' methods, `verifying/reference.py`).
"""
