"""The traces app's endpoints, one a module."""
