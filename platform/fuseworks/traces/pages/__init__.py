"""The traces app's pages, one a module."""
