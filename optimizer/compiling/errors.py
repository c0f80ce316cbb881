"""Errors of the compiling stage. `unsupported`, `refused` and `compile-error` become an evaluation's status."""

from __future__ import annotations

from optimizer.errors import catalogue

catalogue(
    {
        "compiling:user:unsupported": (
            "{engine} cannot run this model: {text}",
            "The other backends go on. Replace the named operation, or leave {engine} out with the policy's backends.",
        ),
        "compiling:user:refused": ("{engine} is refused for this model: {text}", "{remedy}"),
        "compiling:ours:compile-error": (
            "{engine} failed while compiling: {text}",
            "The other backends go on. The engine's own words are in the log of the run.",
        ),
        "compiling:user:worked-out-later": (
            "An output is a {kind}, not a plain tensor: it may be worked out when it is read, which nobody times.",
            "Return plain tensors from the model, such as `answer.as_subclass(torch.Tensor)`.",
        ),
        "compiling:user:timed-out": (
            "{engine} did not finish compiling within {limit_s} s.",
            "Give the run more --budget, or a machine with less other work: compilers need its cores.",
        ),
        "compiling:ours:unavailable": ("{engine} cannot be used on this machine: {text}", "{remedy}"),
        "compiling:user:unknown-backend": (
            "There is no backend called {name!r}; known: {known}.",
            "Correct the name in the recipe or the policy.",
        ),
        "compiling:user:bad-options": (
            "The options of backend {name!r} are not valid: {text}",
            "Correct them; `fuseworks` lists the options of each backend.",
        ),
        "compiling:user:wrong-format": (
            "Backend {name!r} takes {formats}, and this model is {format}.",
            "Choose a backend that reads the model's format.",
        ),
        "compiling:user:other-machine": (
            "The artifact was built for {built} and this machine has {here}.",
            "Build it on a machine of this kind: compiled code is not moved between processors.",
        ),
        "compiling:ours:artifact": (
            "The built artifact cannot be loaded: {text}",
            "This is a fault of Fuseworks: please report it with the log of the run.",
        ),
        "compiling:ours:outputs": (
            "{engine} gives {got} outputs where the captured model has {wanted}.",
            "This is a fault of Fuseworks: please report it with the log of the run.",
        ),
        "compiling:ours:toolchain": (
            "The compiler's cache could not be seeded: {text}",
            "Builds work without it and take longer. Check that the cache folder is writable and has 2 GB free.",
        ),
    }
)
