"""Builds artifacts with backends and loads them."""
