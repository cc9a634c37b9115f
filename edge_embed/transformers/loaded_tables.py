"""Compressed layers in a model that transformers loads: places for packed tensors first, layers afterwards."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edge_embed.errors import BadInputError, located
from edge_embed.layers.frozen import frozen_layer
from edge_embed.layers.rotated import rotated
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.packed.container import opened, sha256
from edge_embed.packed.packed_form import METHODS, TensorSpec
from edge_embed.packed.stored_names import stored_name
from edge_embed.transformers.config import StoredTable
from edge_embed.transformers.saved_tables import BIAS, ROTATION

_TYPES = {"uint8": "U8", "uint16": "U16", "uint32": "U32", "int8": "I8", "int32": "I32", "float16": "F16"}
_TYPES |= {"float32": "F32"}
_FORWARDS = nn.Embedding.forward, nn.Linear.forward
_AGAIN = "save the model again with its save_pretrained"


class Pending(nn.Module):
    """Place of a compressed layer until its tensors are loaded.

    Args:
        dense: the layer of the class of the model.
        specs: tensors to load by name; empty for a layer that uses the table of another one.
    """

    bias: nn.Parameter | None

    def __init__(self, dense: nn.Embedding | nn.Linear, specs: Mapping[str, TensorSpec]) -> None:
        super().__init__()
        self.is_output, self.dtype = isinstance(dense, nn.Linear), dense.weight.dtype
        self.names = tuple(specs)
        for name, spec in specs.items():
            self.register_buffer(name, torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta"))
        self.register_parameter(BIAS, getattr(dense, BIAS, None))
        weight = torch.empty_like(dense.weight, device="meta")
        weight._is_hf_initialized = True  # type: ignore[attr-defined]  # what draws random weights asks for it
        self.weight = weight  # neither a parameter nor a buffer, so nothing loads it; some classes look at it


@dataclass(frozen=True)
class Placed:
    """A declared table, and the names of its layers in the model that is loaded."""

    name: str
    stored: StoredTable
    layers: tuple[str, ...]

    def specs(self) -> dict[str, TensorSpec]:
        """Return dtype and shape of all tensors of the table by name."""
        shape = self.stored.entry.shape
        square = {ROTATION: TensorSpec("float32", (shape.embedding_dim,) * 2)} if self.stored.rotated else {}
        return {**shape.tensor_specs(), **square}


def place_tables(model: Any, tables: Mapping[str, StoredTable], is_whole: bool) -> list[Placed]:
    """Replace the dense layers of a model without numbers by places for the tensors of tables.

    Args:
        model: the model as transformers builds it, on the meta device.
        tables: the declared tables.
        is_whole: whether the model has the class that was saved; another class may lack layers.

    Raises:
        BadInputError: a layer is missing or has other sizes than its table.
    """
    found = []
    for name, stored in tables.items():
        layers = tuple(layer for layer in (_layer_in(model, each) for each in stored.layers) if layer is not None)
        lacks = len(layers) < len(stored.layers) and is_whole
        if lacks or (layers and _layer_in(model, name) is None):
            got = f"table {name!r:.80}: got the layers {list(stored.layers)!r:.200}"
            raise BadInputError(f"{got}, expected layers of {type(model).__name__}: {_AGAIN}")
        if layers:
            found.append(Placed(name, stored, layers))
    for placed in found:
        for layer in placed.layers:
            dense = _checked_layer(layer, model.get_submodule(layer), placed)
            model.set_submodule(layer, Pending(dense, placed.specs() if layer == placed.layers[0] else {}))
    return found


def check_stored(placed: Iterable[Placed], files: Iterable[str]) -> None:
    """Compare the sizes of tables with the headers of files.

    Raises:
        BadInputError: a tensor is missing or has another dtype or shape than declared.
    """
    stored: dict[str, tuple[str, list[int]]] = {}
    for path in files:
        with located(Path(path).name), opened(path) as file:
            for key in file.keys():  # noqa: SIM118 - no mapping
                part = file.get_slice(key)
                stored[key] = part.get_dtype(), part.get_shape()
    for table in placed:
        for tensor, spec in table.specs().items():
            key, expected = stored_name(table.name, tensor), (_TYPES[spec.dtype], list(spec.shape))
            own = stored_name(table.name.rpartition(".")[2], tensor)  # transformers may rename what surrounds it
            if not any(f".{each}".endswith(f".{own}") for each in stored):
                raise BadInputError(f"weights: got no tensor {key!r:.200}, expected that of config.json: {_AGAIN}")
            if stored.get(key, expected) != expected:
                got = " ".join(map(str, stored[key]))
                wanted = " ".join(map(str, expected))
                raise BadInputError(f"tensor {key!r:.200}: got {got}, expected {wanted} of config.json: {_AGAIN}")


def make_layers(model: nn.Module, placed: Iterable[Placed]) -> None:
    """Replace places whose tensors are loaded by frozen layers.

    Raises:
        BadInputError: a tensor differs from its hash, or the packed format does not allow a value.
    """
    for table in placed:
        first = _pending(model, table.layers[0])
        layer, rotation = _made(table, first), first.get_buffer(ROTATION) if table.stored.rotated else None
        for name in table.layers:
            pending = _pending(model, name)
            own = TiedOutput(layer, pending.bias) if pending.is_output else layer
            model.set_submodule(name, (own if rotation is None else rotated(own, rotation)).eval())


def _layer_in(model: Any, name: str) -> str | None:
    """Return the name of a layer in a model, which may have or lack the prefix of its base model; None if absent."""
    prefix = f"{model.base_model_prefix}."
    for each in (name, name.removeprefix(prefix), prefix + name):
        try:
            model.get_submodule(each)
        except AttributeError:
            continue
        return each
    return None


def _pending(model: nn.Module, name: str) -> Pending:
    found = model.get_submodule(name)
    assert isinstance(found, Pending)
    return found


def _checked_layer(name: str, layer: nn.Module, placed: Placed) -> nn.Embedding | nn.Linear:
    """Return a layer of a class that a compressed one can replace."""
    shape = placed.stored.entry.shape
    size = [shape.num_embeddings, shape.embedding_dim]
    if not isinstance(layer, nn.Embedding | nn.Linear) or type(layer).forward not in _FORWARDS:
        got = f"{name:.200}: got a {type(layer).__name__}"
        raise BadInputError(f"{got}, expected nn.Embedding or nn.Linear: {_AGAIN}")
    if size != (wanted := list(layer.weight.shape)):
        got = f"table {placed.name!r:.200}: got sizes {size}"
        raise BadInputError(f"{got}, expected {wanted} of layer {name:.200}: {_AGAIN}")
    return layer


def _made(table: Placed, pending: Pending) -> CompressedEmbedding:
    entry = table.stored.entry
    arrays = {name: pending.get_buffer(name).cpu().numpy() for name in entry.sha256}
    with located(f"table {table.name!r:.200}"):
        for name, array in arrays.items():
            if (digest := sha256(array)) != entry.sha256[name]:
                got = f"tensor {name!r}: its hash is {digest}, expected {entry.sha256[name]}"
                raise BadInputError(f"{got}: it is damaged; {_AGAIN}")
        packed = METHODS[entry.method].from_tensors(arrays, entry.shape.attributes(), entry.padding_idx)
    layer = frozen_layer(packed).to(pending.get_buffer(pending.names[0]).device)
    layer.dtype = pending.dtype
    return layer
