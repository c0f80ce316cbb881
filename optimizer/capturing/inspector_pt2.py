"""`.pt2` archives of torch.export: stored entries, JSON and raw tensors by an allow-list.

Loading one runs code in many ways: pickled sample inputs and weights, object constants, shared libraries, and from
JSON alone by shape expressions, guards and the tree specs that import modules. Each is either absent or in a grammar.
"""

from __future__ import annotations

import io
import pickletools
import re
import zipfile
from typing import Any

from optimizer.capturing import inspector_json
from optimizer.capturing.inspector_archive import Archive
from optimizer.errors import FuseworksError
from optimizer.uploads.contents import PROGRAM
from optimizer.uploads.refusals import Refused
from optimizer.uploads.zip_listing import Listing

MAX_JSON_BYTES = 256 << 20
MAX_SAMPLE_BYTES = 2 << 30
MAX_PICKLE_BYTES = 16 << 20
NAME = r"[A-Za-z0-9_-]{1,100}"
CONFIG = re.compile(rf"data/(weights|constants)/{NAME}\.json")
TENSOR = re.compile(r"data/(weights/weight|constants/tensor)_\d+")
TENSOR_NAME = re.compile(r"(weight|tensor)_\d+")
SAMPLES = re.compile(rf"data/sample_inputs/{NAME}\.pt")
PLAIN = re.compile(r"archive_format|archive_version|byteorder|\.data/[a-z_]+|\.format_version|\.storage_alignment")

OPERATOR = re.compile(r"torch\.ops\.(aten|prims|fuseworks)\.[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?")
PYTHON_OPERATOR = re.compile(r"math\.[a-z0-9]+|torch\.sym_[a-z0-9_]+|torch\._sym_[a-z0-9_]+")
ARITHMETIC = frozenset(
    f"_operator.{name}"
    for name in [
        "abs",
        "add",
        "and_",
        "eq",
        "floordiv",
        "ge",
        "getitem",
        "gt",
        "index",
        "inv",
        "invert",
        "is_",
        "is_not",
        "le",
        "lshift",
        "lt",
        "matmul",
        "mod",
        "mul",
        "ne",
        "neg",
        "not_",
        "or_",
        "pos",
        "pow",
        "rshift",
        "sub",
        "truediv",
        "truth",
        "xor",
    ]
)
OPERATORS_REFUSED = frozenset(
    {"_operator.attrgetter", "_operator.methodcaller", "_operator.call", "_operator.itemgetter"}
)
OPERATORS_REFUSED = frozenset({"from_file"})
HIGHER_ORDER = frozenset(
    [
        "cond",
        "while_loop",
        "scan",
        "associative_scan",
        "map_impl",
        "wrap",
        "wrap_with_set_grad_enabled",
        "wrap_with_autocast",
        "invoke_subgraph",
        "flex_attention",
    ]
)
GLOBALS = frozenset(
    ["torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter", "collections OrderedDict"]
    + ["torch.serialization _get_layout", "torch device", "torch Size", "torch.storage UntypedStorage"]
    + [
        f"torch {kind}Storage"
        for kind in ["Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"]
    ]
)
PICKLE_REFUSED = frozenset({"STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4", "NEWOBJ", "NEWOBJ_EX", "BUILD"})
KEYS_REFUSED = frozenset({"class_fqn", "custom_obj_name", "default_factory_module", "__enum__", "script_object_name"})


def inspect_pt2(archive: Archive) -> tuple[str, ...]:
    """Names of the operators in its graphs. Raises FuseworksError (`inspecting:user:bad-pt2`, `...:operator`)."""
    inspector = _Inspector(archive)
    try:
        return inspector.run()
    except inspector_json.NotAllowed as error:
        raise FuseworksError("inspecting:user:bad-pt2", place=inspector.at, text=str(error)) from error


class _Inspector:
    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._operators: set[str] = set()
        self.at = archive.place

    def run(self) -> tuple[str, ...]:
        root = self._archive.names[0].partition("/")[0]
        models = 0
        for name in self._archive.names:
            self.at = name
            top, _, inner = name.partition("/")
            if top != root or not inner:
                raise inspector_json.NotAllowed("its entries do not share one top folder")
            if self._archive.entries[name].compress_type != zipfile.ZIP_STORED:
                raise inspector_json.NotAllowed(f"{inner!r} is compressed, which torch never does")
            models += self._entry(name, inner)
        self.at = self._archive.place
        if models != 1:
            raise inspector_json.NotAllowed(f"it holds {models} programs, not one")
        return tuple(sorted(self._operators))

    def _entry(self, name: str, inner: str) -> int:
        if PROGRAM.fullmatch(inner):
            self._model(inspector_json.load(self._archive.read(name, MAX_JSON_BYTES)))
            return 1
        if CONFIG.fullmatch(inner):
            self._config(inspector_json.load(self._archive.read(name, MAX_JSON_BYTES)))
        elif SAMPLES.fullmatch(inner):
            check_pickled_tensors(self._archive.read(name, MAX_SAMPLE_BYTES))
        elif inner.startswith("data/aotinductor/"):
            raise inspector_json.NotAllowed("it is a compiled AOTInductor package, not a program")
        elif not (TENSOR.fullmatch(inner) or PLAIN.fullmatch(inner)):
            raise inspector_json.NotAllowed(f"it holds the unexpected entry {inner[:80]!r}")
        return 0

    def _config(self, document: Any) -> None:
        if not isinstance(document, dict) or not isinstance(document.get("config"), dict):
            raise inspector_json.NotAllowed("a list of tensors has no `config`")
        for key, value in document["config"].items():
            path = value.get("path_name") if isinstance(value, dict) else None
            if not isinstance(path, str) or not TENSOR_NAME.fullmatch(path):
                raise inspector_json.NotAllowed(f"{key[:80]!r} is kept as an object, not as a plain tensor")
            if value.get("use_pickle") is not False:
                raise inspector_json.NotAllowed(f"{key[:80]!r} is pickled")

    def _model(self, document: Any) -> None:
        if not isinstance(document, dict) or "graph_module" not in document:
            raise inspector_json.NotAllowed("its program has no graph")
        guards = document.get("guards_code", [])
        if not isinstance(guards, list):
            raise inspector_json.NotAllowed("its guards are no list")
        for guard in guards:
            inspector_json.check_guard(guard)
        for value in inspector_json.objects(document):
            self._object(value)

    def _object(self, value: dict[str, Any]) -> None:
        refused = KEYS_REFUSED & value.keys()
        if refused:
            raise inspector_json.NotAllowed(f"it uses {min(refused)!r}, an object of Python")
        if "expr_str" in value:
            inspector_json.check_expression(value["expr_str"])
        if "target" in value and "inputs" in value:
            self._operator(value["target"])
        if "as_operator" in value:
            self._operator(value["as_operator"])
        if "as_custom_obj" in value:
            raise inspector_json.NotAllowed("it passes an object of Python to an operator")
        for key in ("in_spec", "out_spec"):
            if isinstance(value.get(key), str):
                self._tree(value[key])

    def _tree(self, text: str) -> None:
        """How nested inputs are packed: JSON in JSON, whose named types torch looks up or imports."""
        for value in inspector_json.objects(inspector_json.load(text.encode())):
            refused = KEYS_REFUSED & value.keys()
            if refused:
                raise inspector_json.NotAllowed(f"its inputs are packed by {min(refused)!r}")
            context = value.get("context")
            if isinstance(context, str) and any(key in context for key in KEYS_REFUSED):
                raise inspector_json.NotAllowed("its inputs are packed in a container of the model's own")

    def _operator(self, target: Any) -> None:
        if not isinstance(target, str):
            raise inspector_json.NotAllowed("an operator has no name")
        known = OPERATOR.fullmatch(target) or PYTHON_OPERATOR.fullmatch(target) or target in ARITHMETIC
        if not (known or _higher_order(target)) or OPERATORS_REFUSED & set(target.split(".")):
            raise FuseworksError("inspecting:user:operator", place=self.at, operator=target[:120])
        self._operators.add(target)


def _higher_order(target: str) -> bool:
    return target.startswith("torch.ops.higher_order.") and target.split(".")[3] in HIGHER_ORDER


def check_pickled_tensors(data: bytes) -> None:
    """A torch.save archive whose pickle can build nothing but tensors in plain containers. Read, never run."""
    file = io.BytesIO(data)
    try:
        with zipfile.ZipFile(file) as opened:
            archive = Archive(opened, Listing(file), "sample inputs")
            pickles = [name for name in archive.names if name.partition("/")[2] == "data.pkl"]
            others = [name for name in archive.names if name.endswith((".pkl", ".py", ".so"))]
            if len(pickles) != 1 or others != pickles:
                raise inspector_json.NotAllowed("its sample inputs are no plain tensors")
            code = archive.read(pickles[0], MAX_PICKLE_BYTES)
    except zipfile.BadZipFile as error:
        raise inspector_json.NotAllowed("its sample inputs are a bare pickle") from error
    except Refused as refused:
        raise FuseworksError("inspecting:user:bad-zip", place="sample inputs", **refused.context) from refused
    try:
        for operation, argument, _ in pickletools.genops(code):
            if operation.name in PICKLE_REFUSED or (operation.name == "GLOBAL" and argument not in GLOBALS):
                raise inspector_json.NotAllowed(f"its sample inputs hold more than tensors ({argument!r})"[:200])
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise inspector_json.NotAllowed("its sample inputs are damaged") from error
