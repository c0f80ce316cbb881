"""One file per backend; each registers itself."""
