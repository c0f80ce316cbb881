"""Is the candidate faster? Interleaved bursts, pairs of fresh processes, Student intervals."""
