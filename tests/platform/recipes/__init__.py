"""The recipes app."""
