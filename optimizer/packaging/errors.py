"""What can go wrong while a package is written. All of it is ours: the model has passed by then."""

from optimizer.errors import catalogue

catalogue(
    {
        "packaging:ours:no-artifact": (
            "The backend {backend} left no file that a package can load ({text}).",
            "This is a fault of Fuseworks: please report it with the log of the run.",
        ),
        "packaging:ours:not-lowered": (
            "The graph still calls operations of Fuseworks' own kernel library, which a package does not bring along.",
            "This is a fault of Fuseworks: please report it with the log of the run.",
        ),
    }
)
