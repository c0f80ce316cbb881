"""One file per pass; each registers itself."""
