"""Traces of torch.profiler: read as a stream in a child, summed up as a document, diagnosed by rules."""
