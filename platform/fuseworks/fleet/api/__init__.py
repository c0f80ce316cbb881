"""Endpoints of this app, one module each."""
