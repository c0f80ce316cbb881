"""Models that Fuseworks is measured on, beside the examples, and what was measured: `make bench` (docs/bench.md)."""
