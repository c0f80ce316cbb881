"""Pages of this app, one module each."""
