"""Kernels compiled ahead of time for GPUs that are not there: what a compiler can tell about them, and a bound.

`python -m kernels.aot` writes and checks the report that is kept in this folder. Everything here is predicted, nothing
measured. Not in a process that runs Triton's interpreter: it and the compiler do not share one.
"""
