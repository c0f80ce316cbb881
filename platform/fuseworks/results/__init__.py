"""What runs found: the result document of the optimizer with its headline figures, and comparisons of runs."""
