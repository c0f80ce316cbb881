"""Training steps: what runs one, and how it is loaded from a captured step."""
