"""What can be wrong with a request about recipes. What is wrong with a document is said by `optimizer.recipe`."""

from __future__ import annotations

from fuseworks.core.errors import catalogue

catalogue(
    {
        "recipes:usage:no-recipe": (
            409,
            "This run left no recipe: {reason}.",
            "Only an optimize run that found something faster leaves one.",
        ),
        "recipes:user:invalid-document": (422, "{text}", "{remedy}"),
        "recipes:usage:exists": (
            409,
            "This very recipe is in the catalog already, as {name} {version}.",
            "Open it there; change the document to make another.",
        ),
        "recipes:usage:version-taken": (
            409,
            "{name} has a version {version} already.",
            "Give metadata.version a higher number.",
        ),
        "recipes:usage:not-a-draft": (
            409,
            "{name} {version} is {state}: a published document never changes.",
            "Derive a new version from it.",
        ),
        "recipes:usage:in-use": (
            409,
            "{name} {version} was applied to models; a draft with runs is not deleted.",
            "Edit it instead, or publish and deprecate it.",
        ),
        "recipes:usage:edited": (
            409,
            "{name} {version} was edited since you looked at it.",
            "Look at it again, then publish it.",
        ),
        "recipes:usage:unknown-pass": (
            409,
            "No worker knows a pass called {name}.",
            "There are: {nearest}. Edit the draft; the fleet page tells all that each worker knows.",
        ),
        "recipes:usage:unknown-backend": (
            409,
            "No worker knows a backend called {name}.",
            "There are: {nearest}. Edit the draft; the fleet page tells all that each worker knows.",
        ),
        "recipes:usage:no-target": (
            409,
            "No worker serves a target of the kind {kind}.",
            "Start one, or choose another recipe; the fleet page lists the workers.",
        ),
        "recipes:usage:not-published": (
            409,
            "{name} {version} is {state}, not published.",
            "Publish it first, or choose another version.",
        ),
        "recipes:usage:not-deprecated": (
            409,
            "{name} {version} is {state}, not deprecated.",
            "Load its page again: it shows how it stands now.",
        ),
        "recipes:usage:visibility": (
            400,
            "{visibility} is no visibility: team, unit or company.",
            "Choose one of the three.",
        ),
    }
)
