"""What can be wrong with a recipe, and with using one."""

from optimizer.errors import catalogue

catalogue(
    {
        "recipe:user:unreadable": (
            "The recipe cannot be read: {text}",
            "Give the path of a recipe file: UTF-8 YAML or JSON of at most {limit_kib} KiB.",
        ),
        "recipe:user:not-yaml": (
            "The recipe is not YAML that is accepted here: {text}",
            "Mend the named line. Anchors, aliases, tags and repeated keys are not allowed in a recipe.",
        ),
        "recipe:user:invalid": (
            "The recipe's field {field} is not valid: {text}",
            "Correct {field}; `fuseworks schema recipe` prints the schema.",
        ),
    }
)
