"""Commands of the core app."""
