"""The `fuseworks` command. Starts `python -m optimizer` and shows what it does; imports neither Django, torch nor it."""
