"""Precision by layer: what each linear layer costs and gains in a lower one, measured, and the choice among them."""
