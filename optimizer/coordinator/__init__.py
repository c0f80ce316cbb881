"""The coordinator: trusted, without torch, never opens the upload. Owns the plan, the outer clock and the comparison."""
