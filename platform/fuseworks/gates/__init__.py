"""CI gates: a limit on latency_ratio between two versions, and what each check of it said."""
