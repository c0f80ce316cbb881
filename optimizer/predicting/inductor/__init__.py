"""Inductor made to lower for a GPU that is not there: the only place that leans on torch's private interfaces for it.

Checked on the torch that pyproject pins. One target a process: Inductor keeps what it learnt of a device.
"""
