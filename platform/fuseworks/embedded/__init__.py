"""The embedded default: PostgreSQL and Valkey out of wheels, and one supervisor over all processes."""
