"""The manifest of the delegate: the tensors that are inputs, output and table of each use (runtime_ops/README.md)."""

from collections.abc import Iterable, Mapping

from edge_embed.exporters.tflite.graph import Tensor
from edge_embed.exporters.tflite.method import Fields
from edge_embed.packed.bag import MODES
from edge_embed.packed.form import Packed, Use

_KEY = "edge_embed.delegate"
_HEADER = "edge_embed 1"


def delegate_metadata(lines: Iterable[str | None]) -> Mapping[str, str]:
    """What a file says to the delegate, from the lines of its uses."""
    return {_KEY: "".join(f"{line}\n" for line in (_HEADER, *lines) if line is not None)}


def manifest_line(
    use: Use, packed: Packed, ends: Mapping[str, Tensor], fields: Fields | None, mode: str | None
) -> str | None:
    """The line of one use, None where no kernel takes its place.

    Args:
        use: of the table.
        packed: the table.
        ends: inputs and output, by the names of the manifest.
        fields: what the method says of the table.
        mode: of a bag, None for rows.
    """
    floats = (tensor.dtype for name, tensor in ends.items() if name in ("output", "sample_weights"))
    if fields is None or any(dtype != "float32" for dtype in floats):
        return None
    padding = -1 if packed.padding_idx is None else packed.padding_idx
    said: dict[str, object] = {name: tensor.name for name, tensor in ends.items()}
    said |= {} if mode is None else {"mode": MODES.index(mode)}
    said |= {**fields, "num_embeddings": packed.num_embeddings, "padding_idx": padding}
    words = [f"{name}={_spelled(value)}" for name, value in said.items()]
    if any(len(word.split()) > 1 for word in words):  # a name with a blank cannot be written
        return None
    return " ".join((use, packed.method, *words))


def _spelled(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
