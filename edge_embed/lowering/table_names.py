"""Names of tables, derived from the layer that has their weight."""

import re

# weight_norm and other parametrizations store the sources of a weight under their own names.
_PARAMETRIZED = re.compile(r"(?:^|(?<=\.))parametrizations\.(\w+)\.(?:original\d*|\d+\..+)$")
_OLD_NORM = re.compile(r"(?<=\.weight)_(?:v|g|orig)$|^(weight)_(?:v|g|orig)$")


def owner_of(weight: str, is_linear: bool = False) -> str:
    """Return ``encoder.embedding`` for its weight ``query`` or ``cores.0``.

    A bare layer is ``embedding`` or ``linear``.
    """
    path = weight.split(".")
    depth = 2 if path[-1].isdigit() else 1  # in a list of weights
    return ".".join(path[:-depth]) or ("linear" if is_linear else "embedding")


def plain_name(weight: str) -> str:
    """Return ``words.weight`` for ``words.parametrizations.weight.original1`` or ``words.weight_v``."""
    return _OLD_NORM.sub(r"\1", _PARAMETRIZED.sub(r"\1", weight))
