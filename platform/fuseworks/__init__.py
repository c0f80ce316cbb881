"""Fuseworks' web platform (Django). It imports no torch: runs are the workers' work."""

__version__ = "0.1.0"
