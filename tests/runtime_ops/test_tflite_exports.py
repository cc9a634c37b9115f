"""Exported TFLite files in both runtimes with the delegate: one kernel for each use, and the oracle's results."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tflite_runtimes import TfliteRuntime
from torch import Tensor, nn

import edge_embed
from edge_embed import workflow
from edge_embed.layers.bag import ScaledDPQEmbeddingBag, TieredEmbeddingBag
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.packed.dpq_values import quantized
from edge_embed.targets.tflite.runtimes import TARGETS

from ..pairwise import pairwise
from ..tiered_tables import tiered

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")

ROWS, DIM = 60, 12
IDS = torch.tensor([[0, 1, 59, 7], [3, 3, 30, 0]])


def dpq(num_codes: int, value_type: str = "float32", shared: bool = False) -> edge_embed.PackedDPQ:
    random = np.random.default_rng(0)
    values = random.normal(size=(1 if shared else 4, num_codes, DIM // 4)).astype(np.float32)
    stored, scales = quantized(values) if value_type == "int8" else (values, None)
    codes = random.integers(0, num_codes, (ROWS, 4)).astype(np.uint16)
    return edge_embed.PackedDPQ.from_codes(codes, stored, 0, scales)


def scaled(packed: edge_embed.PackedDPQ) -> edge_embed.PackedDPQ:
    """Return the same table with row scales, and without its last column."""
    random = np.random.default_rng(1)
    codes = random.integers(0, 9, ROWS).astype(np.uint8)
    codes[0] = 0
    scales = random.uniform(0, 2, 9).astype(np.float32)
    return replace(packed, row_scale_codes=codes, row_scales=scales, unused_columns=1)


def ant(longest: int, weight_type: str = "float32") -> edge_embed.PackedANT:
    """Return a table in which half of the rows have ``longest`` weights and the others one."""
    random = np.random.default_rng(0)
    transform = random.random((ROWS, 20)).astype(np.float32) + 0.1
    transform[:, longest:] = 0
    transform[ROWS // 2 :, 1:] = 0
    anchors = random.normal(size=(20, DIM)).astype(np.float32)
    return edge_embed.PackedANT.from_dense(transform, anchors, 0, weight_type)


def tt() -> edge_embed.PackedTT:
    torch.manual_seed(0)
    (packed,) = workflow.lower(edge_embed.TTEmbedding(ROWS, DIM, rank=3, padding_idx=0), IDS).tables.values()
    return packed


LAYERS: dict[type, tuple[type[nn.Module], type[nn.Module]]] = {
    edge_embed.PackedDPQ: (edge_embed.DPQEmbedding, edge_embed.DPQEmbeddingBag),
    edge_embed.PackedANT: (edge_embed.ANTEmbedding, edge_embed.ANTEmbeddingBag),
    edge_embed.PackedTT: (edge_embed.TTEmbedding, edge_embed.TTEmbeddingBag),
}
# The factory of a table, the choice for DPQ, and the resulting layout.
TABLES: dict[str, tuple[Callable[[], object], str | None, str]] = {
    "dpq 4 bits": (lambda: dpq(16), "pairs", "pairs"),
    "dpq 4 bits shared": (lambda: dpq(16, shared=True), "pairs", "pairs"),
    "dpq 4 bits by byte": (lambda: dpq(16), "byte", "byte"),
    "dpq 3 bits": (lambda: dpq(5), None, "byte"),
    "dpq 8 bits": (lambda: dpq(200), None, "direct"),
    "dpq int8": (lambda: dpq(200, "int8"), None, "direct"),
    "dpq row scales": (lambda: scaled(dpq(200, "int8")), None, "direct"),
    "dpq 4 bits row scales": (lambda: scaled(dpq(16)), "pairs", "pairs"),
    "ant of one width": (lambda: ant(2), None, "fixed"),
    "ant csr": (lambda: ant(20), None, "csr"),
    "ant int8": (lambda: ant(2, "int8"), None, "fixed"),
    "tt": (tt, None, "cores"),
    "tiered": (lambda: tiered(sizes=(10, 20, 30), dim=DIM, padding_idx=0), None, "tiers"),
    "tiered sorted": (
        lambda: tiered(("integers", "columns", "shared rows"), (10, 20, 30), DIM, "float16", 0, is_sorted=True),
        None,
        "tiers",
    ),
}


def layers_of(packed: object) -> tuple[type[nn.Module], type[nn.Module]]:
    """Return the layers of rows and of bags."""
    if isinstance(packed, edge_embed.PackedTiered):
        return TieredEmbedding, TieredEmbeddingBag
    if isinstance(packed, edge_embed.PackedDPQ) and not packed.shape.is_plain:
        return ScaledDPQEmbedding, ScaledDPQEmbeddingBag
    return LAYERS[type(packed)]


def export(model: nn.Module, layout: str | None, expected: str, folder: Path) -> Path:
    report = workflow.export(model, "tflite", folder / "model.tflite", IDS, tflite_table=layout)
    assert [table.layout for table in report.tables] == [expected]
    return folder / "model.tflite"


@pytest.mark.parametrize("name", TABLES)
def test_exported_rows_use_one_kernel_and_match_oracle(name: str, tflite: TfliteRuntime, tmp_path: Path) -> None:
    make, wanted, layout = TABLES[name]
    packed = make()
    path = export(layers_of(packed)[0].from_packed(packed), wanted, layout, tmp_path)
    found = tflite.run(path, [IDS.numpy()])
    assert found.replaced == 1
    ((rows,),) = found.outputs
    bound = 0 if name.startswith(("dpq", "tiered")) else 1e-6
    assert (np.abs(rows - packed.rows_float64(IDS)) <= bound * packed.magnitudes(IDS) + np.spacing(np.abs(rows))).all()
    assert not rows[IDS == 0].any()  # the padding row


@pytest.mark.parametrize(
    ("name", "mode", "tflite"),
    pairwise(["dpq 4 bits", "ant of one width", "tt", "dpq row scales", "tiered"], ["sum", "mean", "max"], TARGETS),
    indirect=["tflite"],
)
def test_exported_bags_use_one_kernel_and_match_model(
    name: str, mode: str, tflite: TfliteRuntime, tmp_path: Path
) -> None:
    make, wanted, layout = TABLES[name]
    packed = make()
    model = layers_of(packed)[1].from_packed(packed)
    model.mode = mode
    path = export(model, wanted, layout, tmp_path)
    found = tflite.run(path, [IDS.numpy()])
    assert found.replaced == 1
    np.testing.assert_allclose(found.outputs[0][0], model(IDS).detach(), rtol=1e-5, atol=1e-6)


def test_ids_out_of_range_are_refused(tflite: TfliteRuntime, tmp_path: Path) -> None:
    path = export(edge_embed.DPQEmbedding.from_packed(dpq(16)), "pairs", "pairs", tmp_path)
    for bad in (-1, ROWS):
        tflite.refuses(path, rf"edge_embed: .*{bad}", [np.array([[1, bad]], np.int64)])


class Half(nn.Module):
    """Rows of float16, which no kernel of the delegate writes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = edge_embed.DPQEmbedding(ROWS, DIM, num_codes=16, num_groups=4, variant="vq").half()

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids).float()


def test_use_without_kernel_is_left_to_operators(tflite: TfliteRuntime, tmp_path: Path) -> None:
    model = Half().eval()
    found = tflite.run(export(model, "byte", "byte", tmp_path), [IDS.numpy()])
    assert found.replaced == 0
    assert (found.outputs[0][0] == model(IDS).detach().numpy()).all()
