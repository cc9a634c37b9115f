"""``.safetensors``: one table [n, d] among the tensors of a file, mapped, not read."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from edge_embed.errors import BadInputError
from edge_embed.importers.word_vectors import Vectors, check_finite

_TYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32}
_LISTED = 20
_PACKED = "edge_embed"  # the metadata of a file of packed tables


def read_safetensors(path: Path, tables: Collection[str]) -> Vectors:
    """Take a table out of a file; its tokens are not known.

    Args:
        path: the file.
        tables: the name of the one that is wanted: its key, without ``.weight`` at the end. Without a name, the only
            tensor of two dimensions.

    Raises:
        BadInputError: the file is damaged, there is no such table, or several and none is named.
    """
    try:
        with safe_open(path, framework="pt") as file:
            _check_metadata(file.metadata() or {})
            key = _chosen(_found(file), tables)
            table = file.get_tensor(key)
    except (SafetensorError, OSError) as error:
        raise BadInputError(f"is damaged or no safetensors file: {error!s:.300}") from error
    check_finite(table, lambda row: f"{key}, row {row}")
    return Vectors(table, None, table_name(key), path)


def table_name(key: str) -> str:
    """What a table is called in the model: as the layer that such a weight is of."""
    return key.removesuffix(".weight")


def _check_metadata(metadata: dict[str, str]) -> None:
    if _PACKED in metadata:
        raise BadInputError(
            "holds packed tables, which are compressed already: give the model that they are of (edge_embed.save)"
        )


def _found(file: Any) -> dict[str, str]:
    """The keys of all tensors that may be tables, by the names of the tables."""
    found: dict[str, str] = {}
    for key in file.keys():  # noqa: SIM118 - no mapping
        stored = file.get_slice(key)
        shape = stored.get_shape()
        if stored.get_dtype() in _TYPES and len(shape) == 2 and 0 not in shape:
            found.setdefault(table_name(key), key)
    return found


def _chosen(found: dict[str, str], tables: Collection[str]) -> str:
    shown = ", ".join(list(found)[:_LISTED]) + (", ..." if len(found) > _LISTED else "")
    if not found:
        raise BadInputError(f"has no tensor of two dimensions in {', '.join(_TYPES)}: expected a table of vectors")
    if not tables and len(found) > 1:
        raise BadInputError(
            f"has {len(found)} tables, expected the name of one (--module NAME of compress and bench): {shown}; or, "
            "for all weights of a model, --model package.module:function, which makes it"
        )
    name, *others = tables or found
    if others or name not in found:
        raise BadInputError(f"got {', '.join(tables):.200}, expected the name of one table: there are {shown}")
    return found[name]
