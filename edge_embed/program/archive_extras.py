"""Data that `edge_embed.save` adds to an archive: names, vocabulary and the user's own strings.

Member ``extra/edge_embed.json``::

    {"format_version": 1,
     "inputs": {"<input>": "<name>"},
     "dimensions": {"<input>": {"<position>": "<name>"}},
     "outputs": ["<name>", ...],
     "vocabulary": ["<token of id 0>", ...] or null,
     "metadata": {"<key>": "<value>"}}

``inputs`` is optional: the names of inputs that are no identifiers, such as ``past_key_values.0.key``. The name of a
dimension is an identifier, or a sum of identifiers such as ``past_length + sequence_length``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edge_embed.errors import BadInputError
from edge_embed.program.size_sums import PLUS

EXTRA = "edge_embed.json"
EXTRA_VERSION = 1
_MAX_NAME = 256


@dataclass(frozen=True)
class Extra:
    """Checked content of ``edge_embed.json``; the defaults are those of an archive from another tool."""

    inputs: Mapping[str, str] = field(default_factory=dict)
    dimensions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    vocabulary: list[str] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


def read_extra(content: Mapping[str, Any]) -> Extra:
    """Check the content of ``edge_embed.json``.

    Raises:
        BadInputError: if it is of another version, or a field does not have the type of the format.
    """
    version = content.get("format_version")
    if version != EXTRA_VERSION or isinstance(version, bool):
        raise BadInputError(
            f"got format {version!r:.40}, expected {EXTRA_VERSION}: load it with the version of edge-embed that "
            "saved it, or upgrade edge-embed"
        )
    inputs = _mapping(content.get("inputs", {}), "inputs")
    for traced, name in inputs.items():
        if not is_name(name) or identifier_of(name) != traced:
            raise BadInputError(f"inputs: got the name {name!r:.80} for {traced!r:.80}, expected equal letters")
    dimensions = _mapping(content.get("dimensions", {}), "dimensions")
    for names in dimensions.values():
        for name in _mapping(names, "dimensions").values():
            if not is_name(name) or not all(term.isidentifier() for term in name.split(PLUS)):
                raise BadInputError(
                    f"dimensions: got the name {name!r:.80}, expected an identifier, or a sum of identifiers"
                )
    outputs = _strings(content.get("outputs", []), "outputs")
    for name in outputs:
        if not is_name(name):
            raise BadInputError(f"outputs: got the name {name!r:.80}, expected 1 to {_MAX_NAME} printable characters")
    vocabulary = content.get("vocabulary")
    metadata = _mapping(content.get("metadata", {}), "metadata")
    _strings(list(metadata), "metadata")
    for key, text in metadata.items():
        _check_string(text, f"metadata {key!r:.80}")
    return Extra(
        inputs,
        dimensions,
        tuple(outputs),
        None if vocabulary is None else _strings(vocabulary, "vocabulary"),
        metadata,
    )


def identifier_of(name: str) -> str:
    """Return the identifier that stands for the name of an input in a traced signature."""
    return re.sub(r"\W", "_", name)


def is_name(text: Any) -> bool:
    """Return whether a file may use a text as the name of a value: short, and printable on a terminal."""
    return isinstance(text, str) and 0 < len(text) <= _MAX_NAME and text.isprintable()


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInputError(f"{what}: got {value!r:.80}, expected an object")
    return value


def _strings(value: Any, what: str) -> list[str]:
    if not isinstance(value, list):
        raise BadInputError(f"{what}: got {value!r:.80}, expected a list of strings")
    for index, text in enumerate(value):
        _check_string(text, what, f" at position {index}")
    return value


def _check_string(text: Any, what: str, place: str = "") -> None:
    if not isinstance(text, str):
        raise BadInputError(f"{what}: got {text!r:.80}{place}, expected a string")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise BadInputError(
            f"{what}: the string{place} contains a lone surrogate (half a character), expected whole characters"
        )
