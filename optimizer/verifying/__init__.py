"""Is the candidate right? Against a float64 reference, with probes and negative controls."""
