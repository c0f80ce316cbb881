"""Reads uploads: the inspector (no torch) and the capture into one graph (in a child)."""
