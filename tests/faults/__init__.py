"""Faults on the real processes: PostgreSQL, Valkey, web, dispatcher and workers, killed, frozen and cut off."""
