"""The shared catalog: recipes, their immutable versions, and the evidence of where they worked and where not."""
