"""``.safetensors``: one table [n, d] among the tensors of a file, memory-mapped."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from edge_embed.errors import BadInputError
from edge_embed.importers.word_vectors import Vectors, check_finite

_TYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32}
_LISTED = 20
_PACKED = "edge_embed"  # metadata key of a file of packed tables


def read_safetensors(path: Path, tables: Collection[str]) -> Vectors:
    """Return a table of a file, without tokens.

    Args:
        path: the file.
        tables: name of the table: its key, without ``.weight`` at the end. Empty for the only two-dimensional tensor.

    Raises:
        BadInputError: the file is damaged, there is no such table, or there are several and no name is given.
    """
    try:
        with safe_open(path, framework="pt") as file:
            _check_metadata(file.metadata() or {})
            found = _found(file)
            _check_any(found, file)
            key = _chosen(found, tables)
            table = file.get_tensor(key)
    except (SafetensorError, OSError) as error:
        raise BadInputError(f"is damaged or not a safetensors file: {error!s:.300}") from error
    check_finite(table, lambda row: f"{key}, row {row}")
    return Vectors(table, None, table_name(key), path)


def table_name(key: str) -> str:
    """Return the name of a table in the model: that of the layer with such a weight."""
    return key.removesuffix(".weight")


def _check_metadata(metadata: dict[str, str]) -> None:
    if _PACKED in metadata:
        raise BadInputError("contains packed tables, which are already compressed: give their model (edge_embed.save)")


def _found(file: Any) -> dict[str, str]:
    """Return the keys of all tensors that may be tables, by the names of the tables."""
    found: dict[str, str] = {}
    for key in file.keys():  # noqa: SIM118 - no mapping
        stored = file.get_slice(key)
        shape = stored.get_shape()
        if stored.get_dtype() in _TYPES and len(shape) == 2 and 0 not in shape:
            found.setdefault(table_name(key), key)
    return found


def _check_any(found: dict[str, str], file: Any) -> None:
    if found:
        return
    stored = {key: file.get_slice(key) for key in list(file.keys())[:_LISTED]}
    shown = ", ".join(f"{key:.80} ({one.get_dtype()} {one.get_shape()})" for key, one in stored.items())
    raise BadInputError(
        f"got {shown or 'no tensors'}, expected a tensor of two dimensions in {', '.join(_TYPES)}: save the table as "
        "float32"
    )


def _chosen(found: dict[str, str], tables: Collection[str]) -> str:
    shown = ", ".join(list(found)[:_LISTED]) + (", ..." if len(found) > _LISTED else "")
    if not tables and len(found) > 1:
        raise BadInputError(
            f"got {len(found)} tables, expected the name of one (--module NAME of compress and bench): {shown}; for "
            "all weights of a model, give --model package.module:function"
        )
    name, *others = tables or found
    if others or name not in found:
        raise BadInputError(f"got {', '.join(tables):.200}, expected the name of one table among {shown}")
    return found[name]
