"""The tables of a module as ``save_pretrained`` stores them: packed tensors, each once, named ``<layer>.<tensor>``."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.layers.bag import Bag
from edge_embed.layers.rotated import RotatedEmbedding, RotatedOutput
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.packed.manifest import describe
from edge_embed.packed.stored_names import stored_name

ROTATION, BIAS = "rotation", "bias"


@dataclass(frozen=True, eq=False)
class UsedTable:
    """A compressed table and the names of all layers that use it."""

    table: CompressedEmbedding
    rotation: Tensor | None
    layers: list[str] = field(default_factory=list)


def used_tables(model: nn.Module) -> list[UsedTable]:
    """Return the compressed tables of a module, in its order.

    Raises:
        BadInputError: there is none, or one is trainable or the table of bags.
    """
    tables: dict[tuple[int, int | None], UsedTable] = {}
    inside = "\0"  # no name begins with it
    for name, module in model.named_modules(remove_duplicate=False):
        if name.startswith(inside):
            continue
        if (used := table_of(module)) is None:
            continue
        inside = f"{name}."
        table, rotation = used
        _check(name, table)
        key = id(table), None if rotation is None else rotation.data_ptr()
        tables.setdefault(key, UsedTable(table, rotation)).layers.append(name)
    if not tables:
        expected = "expected at least one: compress the model (edge_embed.compress)"
        raise BadInputError(f"{type(model).__name__}: got no compressed layer, {expected}")
    return list(tables.values())


def saved_state(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return all tensors to store by name, and the description of the tables for the configuration.

    Raises:
        BadInputError: as `used_tables`.
    """
    state, described = dict(model.state_dict()), {}
    for used in used_tables(model):
        for layer in used.layers:
            parts = {key: state.pop(key) for key in list(state) if key.startswith(f"{layer}.")}
            biases = (tensor for key, tensor in parts.items() if key.endswith(f".{BIAS}"))
            state |= {stored_name(layer, BIAS): bias for bias in biases}
        name, packed = used.layers[0], used.table.to_packed()
        state |= {stored_name(name, key): torch.from_numpy(array) for key, array in packed.tensors().items()}
        if used.rotation is not None:
            state[stored_name(name, ROTATION)] = used.rotation.float()
        described[name] = describe(packed) | {"layers": used.layers, "rotated": used.rotation is not None}
    return state, described


def table_of(module: nn.Module) -> tuple[CompressedEmbedding, Tensor | None] | None:
    """Return the table and the rotation that a layer uses, or None for another module."""
    if isinstance(module, RotatedEmbedding):
        return module.embedding, module.rotation
    if isinstance(module, RotatedOutput):
        return module.output.embedding, module.rotation
    if isinstance(module, TiedOutput):
        return module.embedding, None
    return (module, None) if isinstance(module, CompressedEmbedding) else None


def _check(name: str, table: CompressedEmbedding) -> None:
    if isinstance(table, Bag):
        expected = "expected a layer of rows: write the model with edge_embed.save"
        raise BadInputError(f"{name}: got a {type(table).__name__}, {expected}")
    if not table.frozen:
        raise BadInputError(f"{name}: got a trainable {type(table).__name__}, expected a frozen layer: call freeze()")
