"""Sizes as numpy or torch integers make the same layer as Python integers."""

import json

import numpy as np
import pytest
import torch

import edge_embed
from edge_embed import BadInputError

LAYERS = {
    "dpq": (edge_embed.DPQEmbedding, {"num_codes": 4, "num_groups": 3, "key_dim": 6}),
    "ant": (edge_embed.ANTEmbedding, {"num_anchors": 5}),
    "tt": (edge_embed.TTEmbedding, {"rank": 2, "num_cores": 3}),
    "tr": (edge_embed.TREmbedding, {"rank": 2, "row_shape": (2, 3, 2), "col_shape": (2, 3, 1)}),
}
SIZES = {"num_embeddings": 12, "embedding_dim": 6, "padding_idx": 3}


@pytest.mark.parametrize("counted", [np.int64, np.uint8, torch.tensor], ids=["int64", "uint8", "tensor"])
@pytest.mark.parametrize("method", LAYERS)
def test_sizes_accept_integers_of_other_libraries(method: str, counted: type) -> None:
    layer, options = LAYERS[method]
    options = SIZES | options

    def converted(size: int | tuple[int, ...]) -> object:
        return tuple(map(counted, size)) if isinstance(size, tuple) else counted(size)

    torch.manual_seed(0)
    plain = layer(**options)
    torch.manual_seed(0)
    other = layer(**{name: converted(size) for name, size in options.items()})
    assert torch.equal(other.eval()(torch.arange(12)), plain.eval()(torch.arange(12)))
    assert repr(other) == repr(plain)
    attributes = other.to_packed().shape.attributes()
    assert json.dumps(attributes) == json.dumps(plain.to_packed().shape.attributes())


@pytest.mark.parametrize("size", [True, 2.0, np.float64(2), np.array([2]), torch.tensor(2.0), "2", None])
@pytest.mark.parametrize("name", ["num_embeddings", "num_codes"])
def test_sizes_that_are_no_integers_are_refused(name: str, size: object) -> None:
    layer, options = LAYERS["dpq"]
    with pytest.raises(BadInputError, match=f"{name} must be an integer, got "):
        layer(**SIZES | options | {name: size})
