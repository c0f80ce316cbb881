"""An engine's exception as an error with an id: its own words, shortened, and who is guilty. No torch."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import optimizer.compiling.errors  # noqa: F401
from optimizer.errors import FuseworksError

# Names, not classes: the engines must not be imported to name their exceptions.
UNSUPPORTED = frozenset(
    {
        # torch.onnx, ONNX Runtime
        "ConversionError", "DispatchError", "OnnxExporterError", "UnsupportedOperatorError",
        "GraphConstructionError", "NotImplemented", "InvalidGraph", "NoSuchFile",
        # OpenVINO
        "OpConversionFailure", "OpValidationFailure", "NotImplementedFailure", "InitializationFailure",
        # Dynamo, Inductor
        "Unsupported", "UserError", "MissingOperatorWithDecomp", "MissingOperatorWithoutDecomp",
        "FailOnRecompileLimitHit", "RecompileLimitExceeded",
    }
)  # fmt: skip
# Engines that raise one class for everything say by their words that they lack something.
UNSUPPORTED_WORDS = re.compile(
    r"no conversion rule|not implemented|not supported|unsupported|no kernel image|could not find an implementation",
    re.I,
)
_NOISE = re.compile(
    r"^(\s|\d+\.|- |Check '|Exception from |Failed to export|At |While executing|from user code|Set TORCH|You can)"
)
MAX_TEXT = 600


@contextmanager
def engine_errors(engine: str) -> Iterator[None]:
    """Whatever the engine raises becomes `compiling:user:unsupported` or `compiling:ours:compile-error`."""
    try:
        yield
    except (FuseworksError, MemoryError):
        raise
    except Exception as error:  # an engine may raise anything; each means that this candidate ends here
        raise translated(engine, error) from error


def translated(engine: str, error: BaseException) -> FuseworksError:
    chain = _chain(error)
    if any(type(e).__name__ == "InvalidCxxCompiler" for e in chain):
        remedy = "Install a C++ compiler (g++) where the PATH finds it."
        return FuseworksError(
            "compiling:ours:unavailable", engine=engine, text="there is no C++ compiler", remedy=remedy
        )
    unsupported = any(type(e).__name__ in UNSUPPORTED or isinstance(e, NotImplementedError) for e in chain)
    unsupported = unsupported or any(UNSUPPORTED_WORDS.search(str(e)) for e in chain)
    id = "compiling:user:unsupported" if unsupported else "compiling:ours:compile-error"
    detail = "".join(traceback.format_exception(error))[-8000:]
    return FuseworksError(id, engine=engine, text=shortened(chain[-1]), detail=detail)


def shortened(error: BaseException) -> str:
    """The first lines of an engine's message that say something, without its own stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not _NOISE.match(line)] or lines
    text = " ".join(telling)[:MAX_TEXT] or "no message"
    return f"{type(error).__name__}: {text}"


def _chain(error: BaseException) -> list[BaseException]:
    """The exception and its causes, the root last."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    return chain
