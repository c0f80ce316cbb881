"""Rewrites the graph (passes) and plans candidates (planner)."""
