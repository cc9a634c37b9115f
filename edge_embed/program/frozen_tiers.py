"""Frozen state of tiered tables during capture: their operators hold packed arrays, not the layers of the tiers."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from edge_embed.layers.tiered import TieredEmbedding

_STATE = "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"


@contextmanager
def tiers_frozen(model: nn.Module) -> Iterator[None]:
    """Freeze the trainable `TieredEmbedding` layers of a model while this context is active."""
    layers = [module for module in model.modules() if isinstance(module, TieredEmbedding) and not module.frozen]
    before = [{name: vars(layer)[name] for name in _STATE} for layer in layers]
    try:
        for layer, state in zip(layers, before, strict=True):
            vars(layer).update({name: each.copy() for name, each in state.items()})
            layer.freeze()
        yield
    finally:
        for layer, state in zip(layers, before, strict=True):
            vars(layer).update(state)
