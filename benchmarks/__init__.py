"""Benchmark suites: what Fuseworks gains on the examples, beside every engine, in one run on one machine."""
