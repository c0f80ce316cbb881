"""Profiler traces: uploaded, diagnosed by a worker, read on pages. Their rows are versions of a job (registry)."""
