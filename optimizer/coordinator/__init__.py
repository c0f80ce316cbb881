"""The coordinator: trusted, without torch, never opens the upload. Owns plan, outer clock and comparison."""
