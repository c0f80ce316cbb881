"""Started instead of a child's own first code: adds the stage `payload`, whose operations misbehave, and answers.

Everything else (confinement, wire, limits) is what every child gets. `python -I -B entry.py WIRE_FD PACKAGE_FOLDER...`.
"""

import importlib.util
import sys
import types
from pathlib import Path


def load(name: str, path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(Path(__file__).parent))
bootstrap = load("bootstrap", Path(sys.argv[2]) / "sandbox" / "bootstrap.py")
sys.modules["optimizer.payload"] = types.ModuleType("optimizer.payload")
load("optimizer.payload.child", Path(__file__).with_name("child.py"))
bootstrap.main()
