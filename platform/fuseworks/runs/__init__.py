"""Runs: work on a version under a policy. The row is the truth; workers claim it over HTTP with a fencing counter."""
