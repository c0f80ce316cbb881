"""The `fuseworks` command. Starts `python -m optimizer` and shows its work; imports neither Django, torch nor it."""
