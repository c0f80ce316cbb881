"""Builds the user's `Model` from a `.py` or `.zip` upload (KernelBench's convention) and loads weights strictly.

Used twice: by the capture, and by the eager baseline, which builds the same module and loads the weights that the
capture saved. Runs the user's code: in a child only.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch.nn.parameter import UninitializedParameter

import optimizer.capturing.errors  # noqa: F401
from optimizer.capturing.fixed_arguments import Fixed, bind
from optimizer.capturing.torch_places import Sources
from optimizer.capturing.torch_weights import fixed_arguments_of, load_weights
from optimizer.children.failures import out_of_memory, text_of
from optimizer.errors import FuseworksError

PRIVATE_NAME = "fuseworks_upload"


@dataclass
class UserModel:
    """The upload, imported and built: eval mode, weights loaded."""

    module: torch.nn.Module
    namespace: ModuleType
    sources: Sources
    folder: Path | None
    fixed: dict[int, Fixed] = field(default_factory=dict)
    """The arguments of `forward`, by place, that are no tensors."""

    def fix(self, fixed: dict[int, Fixed]) -> None:
        if fixed:
            bind(self.module, fixed)
            self.fixed = fixed

    def file(self, name: str) -> Path | None:
        """A file beside `model.py` in a zip."""
        path = self.folder / name if self.folder else None
        return path if path is not None and path.is_file() else None

    def call(self, function: str) -> Any:
        """Calls a function of the module, such as `get_inputs`."""
        try:
            return _named(self.namespace, function, self.sources)()
        except FuseworksError:
            raise
        except Exception as error:
            blame("capturing:user:inputs-failed", error, self.sources, function=function)


def load_module(
    upload: Path, format: str, scratch: Path, seed: int, weights: Path | None = None, shown: str | None = None
) -> UserModel:
    """Imports and builds the upload. `weights`: those that the capture saved, else a zip's own. `shown`: the name that
    the user gave the file. Raises FuseworksError.
    """
    folder: Path | None = None
    source = upload
    if format == "zip":
        folder = _extract(upload, scratch / "upload")
        source = folder / "model.py"
        sys.path.insert(0, str(folder))
    if shown is None or folder is not None:
        shown = upload.name if upload.suffix == ".py" else "model.py"
    elif shown != upload.name:
        # code carries the name of its file into the graph's own source lines: they must read as the user's
        source = scratch / "source" / Path(shown).name
        source.parent.mkdir(exist_ok=True)
        shutil.copyfile(upload, source)
    sources = Sources(folder or source, shown)
    namespace = _import(source, sources)
    torch.manual_seed(seed)
    module = _build(namespace, sources)
    user = UserModel(module.eval(), namespace, sources, folder)
    if any(isinstance(p, UninitializedParameter) for p in module.parameters()):
        with torch.no_grad():
            module(*user.call("get_inputs"))  # lazy modules have no weights before their first call
    chosen = weights or user.file("weights.safetensors")
    if chosen is not None:
        load_weights(module, chosen)
    if weights is not None:
        user.fix(fixed_arguments_of(weights))
    return user


def _extract(upload: Path, target: Path) -> Path:
    """The folder that holds `model.py`. The inspector vetted the listing; zipfile itself drops `..` and roots."""
    try:
        with zipfile.ZipFile(upload) as archive:
            archive.extractall(target)
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise FuseworksError("capturing:user:bad-zip", text=str(error)) from error
    if not (target / "model.py").is_file():
        inner = [p for p in target.iterdir() if (p / "model.py").is_file()]
        if len(inner) != 1:
            raise FuseworksError("capturing:user:bad-zip", text="it holds no model.py")
        return inner[0]
    return target


def _import(source: Path, sources: Sources) -> ModuleType:
    loader = SourceFileLoader(PRIVATE_NAME, str(source))
    spec = importlib.util.spec_from_loader(PRIVATE_NAME, loader)
    assert spec is not None
    namespace = importlib.util.module_from_spec(spec)
    sys.modules[PRIVATE_NAME] = namespace  # dataclasses and pickling look a class's module up there
    try:
        loader.exec_module(namespace)
    except SyntaxError as error:
        at = sources.of_exception(error)
        raise FuseworksError("capturing:user:syntax-error", place=at, text=error.msg, detail=str(error)) from error
    except ModuleNotFoundError as error:
        context = {"module": error.name, "detail": str(error)}
        raise FuseworksError("capturing:user:missing-package", place=sources.of_exception(error), **context) from error
    except Exception as error:
        blame("capturing:user:import-failed", error, sources)
    return namespace


def _build(namespace: ModuleType, sources: Sources) -> torch.nn.Module:
    definition = _named(namespace, "Model", sources)
    if not (isinstance(definition, type) and issubclass(definition, torch.nn.Module)):
        what = f"a class {definition.__name__}" if isinstance(definition, type) else f"a {type(definition).__name__}"
        raise FuseworksError("capturing:user:not-a-module", place=sources.shown, what=what)
    arguments, named = _init_inputs(namespace, sources)
    try:
        module: torch.nn.Module = definition(*arguments, **named)
    except Exception as error:
        blame("capturing:user:init-failed", error, sources)
    return module


def _init_inputs(namespace: ModuleType, sources: Sources) -> tuple[list[Any], dict[str, Any]]:
    function = getattr(namespace, "get_init_inputs", None)
    if function is None:
        return [], {}
    try:
        given = function()
    except Exception as error:
        blame("capturing:user:inputs-failed", error, sources, function="get_init_inputs")
    if isinstance(given, dict):
        return [], given
    if not isinstance(given, (list, tuple)):
        what = f"a {type(given).__name__} instead of a list"
        at = _defined_at(function, sources)
        raise FuseworksError("capturing:user:bad-inputs", place=at, function="get_init_inputs", what=what)
    if len(given) == 2 and isinstance(given[0], (list, tuple)) and isinstance(given[1], dict):
        return list(given[0]), given[1]
    return list(given), {}


def _named(namespace: ModuleType, name: str, sources: Sources) -> Any:
    if not hasattr(namespace, name):
        raise FuseworksError("capturing:user:missing-name", place=sources.shown, name=name)
    return getattr(namespace, name)


def _defined_at(function: Callable[..., Any], sources: Sources) -> str | None:
    code = getattr(function, "__code__", None)
    return sources.place(code.co_filename, code.co_firstlineno) if code else sources.shown


def blame(id: str, error: Exception, sources: Sources, at: str | None = None, **context: Any) -> NoReturn:
    """Raises FuseworksError at the user's line, or `at`. What the sandbox's memory did not hold goes on as it is: the
    child says so, with the limit."""
    if out_of_memory(error):
        raise error
    raise FuseworksError(
        id,
        place=sources.of_exception(error) or at or sources.shown,
        detail="".join(traceback.format_exception(error))[-8000:],
        type=type(error).__name__,
        text=text_of(error)[:500],
        **context,
    ) from error
