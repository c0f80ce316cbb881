"""Production's shape: the compose file, the images, the proxy."""
