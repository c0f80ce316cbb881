"""Verification of training steps: losses, gradients, updates and optimizer state against float64; a short run."""
