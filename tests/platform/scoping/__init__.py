"""Tables of who may do what at every page and every endpoint; `tests/platform/test_scoping.py` walks them."""
