"""An exported use is one node with all bodies that it needs."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.bag import (
    ANTEmbeddingBag,
    DPQEmbeddingBag,
    ScaledDPQEmbeddingBag,
    TREmbeddingBag,
    TTEmbeddingBag,
    bag_of,
)
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding

from .bodies import dpq, in_tiers, scaled


class OutputLayer(nn.Module):
    """One table that gives rows and the logits of all rows."""

    def __init__(self, embedding: nn.Module, bias: bool = False) -> None:
        super().__init__()
        self.embedding, self.output = embedding, TiedOutput(embedding, bias)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.output(torch.tanh(self.embedding(ids)))


class Best(OutputLayer):
    """One table that gives rows and the ids of the largest logits."""

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.output.topk(torch.tanh(self.embedding(ids)), 4)


NARROW = scaled(dpq(width=4, padding_idx=0), unused=3)  # 13 columns of 16
OFFSETS = torch.tensor([0, 2, 4])
ORDER = torch.cat([torch.tensor([0]), torch.arange(19, 0, -1)])
FACTORS = torch.tensor([0.5, -1.0, 2.0, 1.0, 3.0])
EXPORTS = {
    "ANTEmbedding": (lambda: ANTEmbedding(20, 12, 6), ()),
    "ANTEmbeddingBag": (lambda: ANTEmbeddingBag(20, 12, 6, mode="max", padding_idx=0), (OFFSETS,)),
    "ANTLogits": (lambda: OutputLayer(ANTEmbedding(20, 12, 6, padding_idx=0)), ()),
    "ANTTopK": (lambda: Best(ANTEmbedding(20, 12, 6, padding_idx=0)), ()),
    "DPQEmbeddingBag": (lambda: DPQEmbeddingBag(20, 12, 16, 3, mode="sum"), (OFFSETS, FACTORS)),
    "DPQLogits": (lambda: OutputLayer(DPQEmbedding(20, 12, 5, 3)), ()),
    "DPQEmbedding": (lambda: DPQEmbedding(20, 12, 5, 3, padding_idx=0).freeze("int8"), ()),
    "DPQTopK": (lambda: Best(DPQEmbedding(20, 12, 5, 3), bias=True), ()),
    "DPQScaledEmbedding": (lambda: ScaledDPQEmbedding(NARROW), ()),
    "DPQScaledEmbeddingBag": (
        lambda: ScaledDPQEmbeddingBag(NARROW, mode="max"),
        (OFFSETS,),
    ),
    "DPQScaledLogits": (
        lambda: OutputLayer(ScaledDPQEmbedding(replace(NARROW, row_scale_codes=None, row_scales=None))),
        (),
    ),
    "DPQScaledTopK": (lambda: Best(ScaledDPQEmbedding(NARROW), bias=True), ()),
    "TieredEmbedding": (lambda: TieredEmbedding.from_packed(in_tiers(padding_idx=0)), ()),
    "TieredEmbeddingBag": (lambda: bag_of(TieredEmbedding.from_packed(in_tiers()), "mean"), (OFFSETS,)),
    "TieredLogits": (lambda: OutputLayer(TieredEmbedding.from_packed(in_tiers())), ()),
    "TieredTopK": (lambda: Best(TieredEmbedding.from_packed(in_tiers(seed=1, padding_idx=0)), bias=True), ()),
    "TTEmbedding": (lambda: TTEmbedding(20, 12, 3, padding_idx=0), ()),
    "TTEmbeddingBag": (lambda: TTEmbeddingBag(20, 12, 3, mode="mean"), (OFFSETS,)),
    "TTLogits": (lambda: OutputLayer(TTEmbedding(20, 12, 3)), ()),
    "TTTopK": (lambda: Best(TTEmbedding(20, 12, 3)), ()),
    "TTEmbedding of a ring": (lambda: TREmbedding(20, 12, 2, padding_idx=0), ()),
    "TTEmbeddingBag of a ring": (lambda: TREmbeddingBag(20, 12, 2, mode="sum"), (OFFSETS, FACTORS)),
    "TTLogits of a ring": (lambda: OutputLayer(TREmbedding(20, 12, [3, 1, 2])), ()),
    "TTTopK of a ring": (lambda: Best(TREmbedding(20, 12, 2)), ()),
    "TTOrderedEmbedding": (lambda: TTEmbedding(20, 12, 3, padding_idx=0, row_order=ORDER), ()),
    "TTOrderedEmbeddingBag": (lambda: TREmbeddingBag(20, 12, 2, mode="sum", row_order=ORDER), (OFFSETS, FACTORS)),
    "TTOrderedLogits": (lambda: OutputLayer(TTEmbedding(20, 12, 3, padding_idx=0, row_order=ORDER)), ()),
    "TTOrderedTopK": (lambda: Best(TREmbedding(20, 12, 2, row_order=ORDER), bias=True), ()),
}
PLAIN = {  # bodies that wrap plain nodes call these beside the bodies of rows
    "DPQScaledEmbedding": ["DPQEmbedding"],
    "DPQScaledEmbeddingBag": ["DPQEmbedding", "DPQScaledEmbedding"],
    "DPQScaledLogits": ["DPQEmbedding", "DPQScaledEmbedding", "DPQLogits"],
    "DPQScaledTopK": ["DPQEmbedding", "DPQScaledEmbedding", "DPQLogits"],
    "TieredEmbedding": ["DPQEmbedding"],
    "TieredEmbeddingBag": ["DPQEmbedding", "TieredEmbedding"],
    "TieredLogits": ["DPQEmbedding", "TieredEmbedding"],
    "TieredTopK": ["DPQEmbedding", "TieredEmbedding"],
    "TTOrderedEmbedding": ["TTEmbedding"],
    "TTOrderedEmbeddingBag": ["TTEmbedding", "TTEmbeddingBag"],
    "TTOrderedLogits": ["TTEmbedding", "TTOrderedEmbedding", "TTLogits"],
    "TTOrderedTopK": ["TTEmbedding", "TTOrderedEmbedding", "TTLogits"],
}


@pytest.mark.parametrize("use", EXPORTS)
def test_exported_use_is_one_node_with_all_needed_bodies(export, use):
    make, others = EXPORTS[use]
    op_type = use.split()[0]
    inputs = (torch.tensor([1, 2, 0, 19, 5]), *others)
    exported = export(make(), inputs if others else inputs[0])
    model = onnx.load(exported.path)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node].count(op_type) == 1
    rows = op_type.removesuffix("Bag").replace("Logits", "Embedding").replace("TopK", "Embedding")
    needed = [*PLAIN[op_type], op_type] if op_type in PLAIN else [rows, op_type]
    assert [function.name for function in model.functions] == list(dict.fromkeys(needed))
    # On both sides a logit is a float32 sum of 12 terms. Each row is a sum of 6 rounded terms, and tanh lies between.
    precision = 2 * (12 + 6 + 2) * 2.0**-24
    for way in ("portable", "reference"):
        for got, expected in zip(exported.run(way, *inputs), exported.trained(*inputs), strict=True):
            np.testing.assert_allclose(got, expected, rtol=precision, atol=precision / 4, err_msg=way)


def test_int8_values_in_some_tables_only_are_refused(export, add_up):
    layers = [DPQEmbedding(20, 12, 16, 3).freeze(value_type) for value_type in ("int8", "float32")]
    with pytest.raises(BadInputError, match=r"tables of 2 and of 3 tensors, .*: freeze all tables with value_type i"):
        export(add_up(*layers))


def test_tables_with_different_numbers_of_cores_are_refused(export, add_up):
    orders = (None, ORDER, None)  # with and without a row order
    layers = [
        TTEmbedding(20, 12, 3, num_cores=cores, row_order=order) for cores, order in zip((2, 3, 2), orders, strict=True)
    ]
    with pytest.raises(BadInputError, match="tables of 2 and of 3 cores, expected the same number"):
        export(add_up(*layers))
