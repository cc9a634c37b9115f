"""The dense tables of a model, and a copy of the model with compressed layers in their place.

A table is one piece of memory [n, d], used by one or several layers. ``nn.Embedding`` and ``nn.EmbeddingBag`` look up
rows. An ``nn.Linear`` over the same memory is a tied output layer and multiplies with all rows. Layers are tied if
their weights are the same memory; equal numbers alone do not tie them. A computed weight (``weight_norm``) is used as
it is in eval mode, and becomes a compressed layer in the copy. The use of a parameter outside of such layers shows only
in a saved model.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from edge_embed.compression.layer_weight import hooks_of, is_computed, weight_of
from edge_embed.fitting.fitted_table import Fitted
from edge_embed.fitting.found_table import FoundTable, Rotates
from edge_embed.fitting.padding_row import padding_row
from edge_embed.fitting.worth import WORTH
from edge_embed.layers.bag import bag_of
from edge_embed.layers.rotated import rotated
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tied_output import TiedOutput

_LOOKUPS = nn.Embedding, nn.EmbeddingBag
_KINDS = (*_LOOKUPS, nn.Linear)
_KNOWN = "torch.", "edge_embed."
_HOLDERS = nn.ParameterList, nn.ParameterDict
_TALL = 8  # times as many rows as columns

_Memory = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class ModelTable(FoundTable):
    """A dense table of a module.

    Attributes:
        users: the layers that use it, by their first names.
    """

    users: Mapping[str, nn.Module] = field(default_factory=dict)


def model_tables(model: nn.Module) -> list[ModelTable]:
    """Return the tables of a module, in its order, and the weights of its linear layers, then parameters of its own."""
    users: dict[_Memory, dict[str, nn.Module]] = {}
    weights: dict[_Memory, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, _KINDS):
            weight = weight_of(module)
            memory = _memory(weight)
            weights[memory] = weight  # kept, so that no other tensor gets its memory
            bare = "linear" if isinstance(module, nn.Linear) else "embedding"  # as in a saved model
            users.setdefault(memory, {})[name or bare] = module
    numbers = sum(parameter.numel() for parameter in model.parameters())
    found = [_table(model, weights[memory], layers, numbers) for memory, layers in users.items()]
    return found + [_loose(name, weight, numbers) for name, weight in _loose_parameters(model)]


def _loose_parameters(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield matrices of modules of the user's own, by name; parameters of torch's layers have a known purpose."""
    for prefix, module in model.named_modules():
        is_known = type(module).__module__.startswith(_KNOWN) and not isinstance(module, _HOLDERS)
        if is_known or isinstance(module, _KINDS):
            continue
        for name, weight in module.named_parameters(prefix, recurse=False):
            if weight.ndim == 2 and weight.is_floating_point():
                yield name, weight


def _loose(name: str, weight: Tensor, numbers: int) -> ModelTable:
    """Return a parameter that belongs to no known layer; it is reported if it is tall enough for a table, or named."""
    reason = (
        "it is a parameter outside the layers of torch, so its lookups are known only in a saved model; "
        "edge_embed.save the model and compress the file"
    )
    return ModelTable(name, weight, None, 0, _is_tall(weight, numbers), reason)


def _is_tall(weight: Tensor, numbers: int) -> bool:
    """Return whether a weight has the shape of a table, and holds a sufficient share of so many numbers."""
    rows, columns = weight.shape
    return rows >= _TALL * columns and weight.numel() >= WORTH * numbers


def replaced(model: nn.Module, made: Mapping[ModelTable, Fitted]) -> nn.Module:
    """Return a copy of a model in which compressed layers replace dense tables; the model itself does not change.

    Args:
        model: the model of the tables.
        made: the replacements of some of its tables. They become parts of the copy, with the table's device and mode,
            and return rows of its type. Frozen layers keep the types that they are stored in.
    """
    memo: dict[int, Any] = {}  # `copy.deepcopy` treats these as copied
    for table, fitted in made.items():
        layer = fitted.layer
        rotation = None if fitted.rotation is None else fitted.rotation.to(table.weight.device)
        layer.to(table.weight.device, None if layer.frozen else table.weight.dtype)
        layer.dtype = table.weight.dtype
        # Lookups are last: an output layer sets its mode in the table that it shares with them.
        for user in sorted(table.users.values(), key=lambda user: isinstance(user, _LOOKUPS)):
            own = _in_place_of(user, layer, memo)
            memo[id(user)] = (own if rotation is None else rotated(own, rotation)).train(user.training)
    return copy.deepcopy(model, memo)


def _in_place_of(user: nn.Module, layer: CompressedEmbedding, memo: dict[int, Any]) -> CompressedEmbedding | TiedOutput:
    if isinstance(user, nn.Linear):
        return TiedOutput(layer, copy.deepcopy(user.bias, memo))
    if isinstance(user, nn.EmbeddingBag):
        return bag_of(layer, user.mode, user.include_last_offset)  # type: ignore[arg-type]  # as torch has checked
    return layer


def _memory(weight: Tensor) -> _Memory:
    """Return the key of a tensor's memory; it is equal for tensors of the same numbers in the same places."""
    return weight.data_ptr(), weight.shape, weight.stride(), weight.dtype


def _table(model: nn.Module, weight: Tensor, users: Mapping[str, nn.Module], numbers: int) -> ModelTable:
    name = next(iter(users))
    padding_idx, reason = None, _obstacle(model, weight, users)
    if not reason:
        paddings = {kind: [user.padding_idx for user in users.values() if isinstance(user, kind)] for kind in _LOOKUPS}
        has_output_layer = any(isinstance(user, nn.Linear) for user in users.values())
        padding_idx, reason = padding_row(weight, paddings[nn.Embedding], paddings[nn.EmbeddingBag], has_output_layer)
    looks_up = any(isinstance(user, _LOOKUPS) for user in users.values())
    takes_largest = any(isinstance(user, nn.EmbeddingBag) and user.mode == "max" for user in users.values())
    rotates: Rotates = "never" if takes_largest else "beside"
    adds_up = all(isinstance(user, nn.EmbeddingBag) and user.mode != "max" for user in users.values())
    is_output = not looks_up and _is_tall(weight, numbers)
    found = name, weight, padding_idx, len(users), looks_up, reason, rotates, users
    return ModelTable(*found, adds_up=adds_up, is_output=is_output)


def _obstacle(model: nn.Module, weight: Tensor, users: Mapping[str, nn.Module]) -> str:
    """Return the reason why no other layer can replace these layers, or an empty string."""
    for name, user in users.items():
        if reason := _own_ways(user):
            return f"{name} {reason}"
    if weight.is_meta:
        return "it is on the meta device, which has no numbers"
    if not weight.is_floating_point():
        return f"its numbers are {str(weight.dtype).removeprefix('torch.')}, expected floats"
    if 0 in weight.shape:
        return "it is empty"
    lookups = [name for name, user in users.items() if isinstance(user, _LOOKUPS)]
    if len(lookups) > 1 and any(isinstance(user, nn.EmbeddingBag) for user in users.values()):
        return f"{' and '.join(lookups)} share it, expected nn.Embedding layers only, or one nn.EmbeddingBag"
    known = {id(module) for user in users.values() for module in user.modules()}
    computed = [user for user in users.values() if is_computed(user)]
    stored: list[Tensor] = [tensor for user in computed for tensor in user.parameters()] or [weight]
    others = [
        name
        for name, module in model.named_modules()
        if id(module) not in known and any(_shares(module, tensor) for tensor in stored)
    ]
    return f"{others[0] or type(model).__name__} shares its memory" if others else ""


def _own_ways(user: nn.Module) -> str:
    """Return the behaviour of a layer that its torch class lacks, or an empty string."""
    kind = next(kind for kind in _KINDS if isinstance(user, kind))
    if others := [name for name in getattr(user, "parametrizations", ()) if name != "weight"]:
        return f"has a parametrized {others[0]}: remove that parametrization first"
    if type(user).forward is not kind.forward:
        return f"is a {type(user).__name__} that overrides forward: save the model and compress the file"
    if hooks_of(user):
        return "has hooks: remove them first"
    if getattr(user, "max_norm", None) is not None:
        return "has max_norm, which changes rows during a lookup: set max_norm = None after training"
    return ""


def _shares(module: nn.Module, weight: Tensor) -> bool:
    memory = weight.untyped_storage().data_ptr()
    tensors = (*module._parameters.values(), *module._buffers.values())
    return any(tensor is not None and tensor.untyped_storage().data_ptr() == memory for tensor in tensors)
