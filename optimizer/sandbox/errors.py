"""Errors of starting a confined child. What a child does wrong once it runs has `child:` ids."""

from optimizer.errors import catalogue

catalogue(
    {
        "sandbox:ours:unavailable": (
            "This machine offers no sandbox, so nobody's model may run on it: {text}",
            "{remedy} For a file of your own, --trusted runs it without a sandbox, and the result says so.",
        ),
        "sandbox:ours:start-failed": (
            "A child did not start in its sandbox ({sandbox}).",
            "The detail holds what it printed; `fuseworks doctor` tries the sandbox by itself.",
        ),
        "sandbox:usage:input": (
            "A child cannot be given the input {name!r}: {text}",
            "Name inputs plainly and give paths that exist.",
        ),
    }
)
