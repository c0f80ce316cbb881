"""Endpoints of the core app, one module each."""
