"""Ties of a transformers model: names of tensors that are one tensor, which it restores and stores once."""

import re
from collections.abc import Iterable

from torch import nn

from edge_embed.layers.rotated import RotatedEmbedding, RotatedOutput
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.packed.stored_names import stored_name
from edge_embed.transformers.saved_tables import BIAS, ROTATION, table_of

_OF_MODEL, _OF_ALL = "_tied_weights_keys", "all_tied_weights_keys"  # both: name -> name of the tensor that it is


def forget_ties(model: nn.Module, layers: Iterable[str]) -> None:
    """Remove the dense weights of layers from the ties of a model, which transformers would restore."""
    gone = {stored_name(layer, "weight") for layer in layers}
    for prefix, module in model.named_modules():
        for attribute in (_OF_ALL, _OF_MODEL):
            ties = getattr(module, attribute, None)
            if isinstance(ties, dict):
                within = f"{prefix}." if prefix else ""
                left = {key: of for key, of in ties.items() if gone.isdisjoint((within + key, within + of))}
                setattr(module, attribute, left)


def tie_layers(model: nn.Module) -> None:
    """Declare the ties of compressed layers in place of dense ones, so that ``save_pretrained`` stores each once."""
    layers, names = list[str](), dict[object, list[str]]()
    for name, module in model.named_modules(remove_duplicate=False):
        if table_of(module) is not None:
            layers.append(name)
        if isinstance(module, CompressedEmbedding):
            names.setdefault(module, []).append(f"{name}.")
        elif isinstance(module, RotatedEmbedding | RotatedOutput):
            names.setdefault(module.rotation.data_ptr(), []).append(stored_name(name, ROTATION))
    forget_ties(model, layers)
    biases = {stored_name(layer, BIAS): _bias_in(layer) for layer in layers}
    kept = {biases.get(key, key): of for key, of in (getattr(model, _OF_MODEL, None) or {}).items()}
    new = {re.escape(other): re.escape(first) for first, *others in names.values() for other in others}
    setattr(model, _OF_MODEL, kept | new)


def _bias_in(layer: str) -> str:
    """Return the pattern of the name of a bias, also of one behind a rotation."""
    return re.escape(f"{layer}.") + rf"(.*\.)?{BIAS}$"
