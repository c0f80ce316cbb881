"""One file per fused operation. Each registers itself; nothing else needs an edit."""
