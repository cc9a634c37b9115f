"""The manifest of the delegate: tensors of each use (docs/deployment/tflite-delegate.md)."""

from collections.abc import Iterable, Mapping
from typing import Any

from edge_embed.exporters.tflite.graph import Tensor
from edge_embed.exporters.tflite.method import Fields
from edge_embed.exporters.tflite.names import DELEGATE_KEY
from edge_embed.packed.bag import MODES
from edge_embed.packed.packed_form import PackedTable, Use

_HEADER = "edge_embed 1"
_INTEGERS, _FLOATS = ("int32", "int64"), ("float32",)
_TYPES: Mapping[str, tuple[str, ...]] = {"ids": _INTEGERS, "offsets": _INTEGERS, "output_ids": _INTEGERS}


def delegate_metadata(lines: Iterable[str | None]) -> Mapping[str, str]:
    """Return the metadata of a file for the delegate, from the lines of its uses."""
    return {DELEGATE_KEY: "".join(f"{line}\n" for line in (_HEADER, *lines) if line is not None)}


def manifest_line(use: Use, packed: PackedTable, named: Mapping[str, Any], fields: Fields | None) -> str | None:
    """Return the line of one use, or None if no kernel can replace it.

    Args:
        use: use of the table.
        packed: the table.
        named: inputs, outputs and literals, by the names of the manifest; None for omitted ones.
        fields: fields of the method for the table; ``method`` names its kernels, if it has others than the method's.
    """
    tensors = {name: value for name, value in named.items() if isinstance(value, Tensor)}
    if fields is None or any(tensor.dtype not in _TYPES.get(name, _FLOATS) for name, tensor in tensors.items()):
        return None
    padding = -1 if packed.padding_idx is None else packed.padding_idx
    every = {**named, **fields, "num_embeddings": packed.num_embeddings, "padding_idx": padding}
    kernels = every.pop("method", packed.method)
    words = [f"{name}={_spelled(value)}" for name, value in every.items() if value is not None]
    if any(len(word.split()) > 1 for word in words):  # a name with a blank cannot be represented
        return None
    return " ".join((use, kernels, *words))


def _spelled(value: Any) -> str:
    if isinstance(value, Tensor):
        return value.name
    if value in MODES:
        return str(MODES.index(value))
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
