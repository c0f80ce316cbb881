"""The README of a package: how to install, call and trust it, in the words of its manifest."""

from __future__ import annotations

from typing import Any

REPEATED = """It is fast while every row of {names} is the same. Every call looks, and one where they differ goes to the
model without rewrites, which is here as well: the answer is right, and takes as long as that model does."""

FLUSHED = """Denormal floats (below some 1e-38) count as zero, as they did when the model was measured: `Model` has the
processor do so in each thread that calls `predict`, and in those that the engine starts."""


def readme(manifest: dict[str, Any], speedup: str | None) -> str:
    """`speedup` is the verdict in words, as the run gave it."""
    pins = ", ".join(f"{library} {version}" for library, version in manifest["toolchain"].items())
    inputs = "\n".join(f"| `{i['name']}` | {i['dtype']} | {_shape(i)} | {_range(i)} |" for i in manifest["inputs"])
    dims = "\n".join(
        f"- `{n}`: {d['min']} to {d['max']}; measured at {d['serve'][0]}" for n, d in manifest["dims"].items()
    )
    outputs = "\n".join(f"- `{o['name']}`: {o.get('dtype', '')} {_shape(o)}" for o in manifest["outputs"])
    settings = "\n".join(f"export {k}={v}" for k, v in manifest["settings"]["environment"].items())
    flushed = f"\n{FLUSHED}\n" if manifest["settings"].get("denormals") == "flushed" else ""
    device = manifest["device"]
    promise = manifest.get("promise")
    repeated = ", ".join(f"`{name}`" for name in promise["same_over_batch"]) if promise else ""
    pair = f"\n{REPEATED.format(names=repeated)}\n" if promise else ""
    where = f"the GPU architecture {device['arch']}" if device["arch"] else "CPU"
    isa = f" with {', '.join(device['isa'])}" if device["isa"] else ""
    return f"""# {manifest["name"]}

A model made faster and packaged by Fuseworks. Backend: {manifest["backend"]}, inference precision:
{manifest["inference_precision"]}. {speedup or ""}

## Try it

```
python -m venv venv && venv/bin/pip install -r requirements.txt
venv/bin/python run.py --self-test
venv/bin/python run.py --inputs x.npz --outputs y.npz
```

What `--self-test` times is `predict` as a service calls it: with the checks of every input and output and the copies to
and from the engine. The run's own figures are of the model's call alone, so that they are lower.

In a service (numpy arrays by name in, numpy arrays by name out):

```python
from run import Model

model = Model()
outputs = model.predict(inputs)
```

Start the service in the settings that the model was measured in (`run.py` as a command does so by itself):

```
{settings or "# none"}
```
{flushed}
## The contract

| input | dtype | shape | integers |
|---|---|---|---|
{inputs}

{dims or "All shapes are fixed."}

Outputs:
{outputs or "- as the model gives them"}

`run.py` refuses inputs outside of this contract (exit code 4): the compiled model itself would answer some of them
wrongly without a word.
{pair}
## Where it runs

{pins}; {where}{isa}. Anything else is refused (exit code 3), and so is a package of which a file was changed: each
file's SHA-256 is in `manifest.json`. Recipe: `{manifest.get("recipe_digest") or "none"}`.
"""


def _shape(spec: dict[str, Any]) -> str:
    return "[" + ", ".join(str(d) for d in spec.get("shape") or []) + "]"


def _range(spec: dict[str, Any]) -> str:
    bounds = spec.get("integers")
    if bounds is None:
        return ""
    below = bounds["below"]
    return f"{bounds['from']} to below {below if isinstance(below, int) else f'{min(below)}..{max(below)} by column'}"
