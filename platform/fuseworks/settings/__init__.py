"""Settings: `base` and one module per kind of installation. Only these modules read the environment."""
