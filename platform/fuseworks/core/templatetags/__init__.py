"""Template tags and filters of all pages: figures and badges (`fuseworks`), the built front end (`frontend`)."""
