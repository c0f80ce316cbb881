"""First code of a child, `python -I bootstrap.py WIRE_FD PACKAGE_FOLDER...`: makes the project's packages importable.

By a finder and not by `sys.path`: under Landlock the folder that holds the packages cannot be listed, and nothing else
in it is the child's business. Standard library only.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterable


class PackageFinder(importlib.abc.MetaPathFinder):
    """Finds each of a few packages in the one folder that it was given for it."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders = {os.path.basename(folder): folder for folder in folders}

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        folder = self._folders.get(name)
        if folder is None:
            return None
        start = os.path.join(folder, "__init__.py")
        return importlib.util.spec_from_file_location(name, start, submodule_search_locations=[folder])


def main() -> None:
    sys.meta_path.insert(0, PackageFinder(sys.argv[2:]))
    from optimizer.children.__main__ import main as answer

    answer(int(sys.argv[1]))


if __name__ == "__main__":
    main()
