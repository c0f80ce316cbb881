"""Where the time goes, operation by operation, and what the machine could do."""
