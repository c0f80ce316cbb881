"""The model registry: models, their immutable versions, the workloads of each, and uploads on their way in."""
