"""Every test of the gates has a storage of its own."""

from tests.platform.results.conftest import storage

__all__ = ["storage"]
