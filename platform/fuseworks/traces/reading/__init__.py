"""From a stored diagnosis to what pages show of it."""
