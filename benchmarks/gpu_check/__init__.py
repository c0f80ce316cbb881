"""What only a GPU can tell of the kernel library: right, how fast, and how far from what was predicted."""
