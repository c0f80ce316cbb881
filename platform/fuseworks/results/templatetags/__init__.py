"""Template filters of the results' pages."""
