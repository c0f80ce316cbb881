"""Findings: what holds a model back."""
