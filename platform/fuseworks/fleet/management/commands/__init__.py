"""Commands of the fleet."""
