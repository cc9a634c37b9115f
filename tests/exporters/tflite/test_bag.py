"""Bags match the packed form for every way in which a model gives their bounds."""

import numpy as np
import pytest
import torch

import edge_embed
from edge_embed.packed.bag import bag

BAGS = {
    "dpq": lambda **options: edge_embed.DPQEmbeddingBag(20, 12, 16, 4, padding_idx=0, **options),
    "ant": lambda **options: edge_embed.ANTEmbeddingBag(20, 12, 5, padding_idx=0, **options),
    "tt": lambda **options: edge_embed.TTEmbeddingBag(20, 12, rank=2, **options),
    "tr": lambda **options: edge_embed.TREmbeddingBag(20, 12, rank=2, **options),
}
IDS, OFFSETS = torch.tensor([1, 2, 3, 4]), torch.tensor([0, 2, 3])
LENGTHS = ([3, 0, 5], [1], [0, 0, 2], [40, 3], [0])


def close(got, table, ids, offsets, mode, weights=None):
    values, magnitudes = bag(table, ids, offsets, mode, weights)
    assert got.shape == values.shape
    assert (np.abs(got - values) <= 1e-6 * magnitudes).all()


# Each type occurs with every method and every mode.
@pytest.mark.parametrize(
    ("method", "mode", "dtype"),
    [
        (method, mode, (torch.int32, torch.int64)[(at + other) % 2])
        for at, method in enumerate(BAGS)
        for other, mode in enumerate(("sum", "mean", "max"))
    ],
)
def test_bags_of_offsets_without_last_match_packed_form(export, method, mode, dtype):
    exported = export(BAGS[method](mode=mode), (IDS.to(dtype), OFFSETS.to(dtype)))
    run = exported.opened()
    for lengths in LENGTHS:
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        ids = np.arange(offsets[-1]) % 20  # with padding rows
        got = run(ids.astype(str(dtype)[6:]), offsets[:-1].astype(str(dtype)[6:]))
        close(got, exported.table, ids, offsets, mode)


def test_bags_of_offsets_with_last_and_weights_match_packed_form(export):
    layer = BAGS["dpq"](mode="sum", include_last_offset=True)
    exported = export(layer, (IDS, torch.tensor([0, 2, 3, 4]), torch.rand(4)))
    run = exported.opened()
    ids, offsets = np.arange(15) % 20, np.array([0, 7, 7, 15])
    weights = np.random.default_rng(0).normal(size=15).astype(np.float32)
    close(run(ids, offsets, weights), exported.table, ids, offsets, "sum", weights)


def test_bags_of_many_ids_match_packed_form(export):
    layer = BAGS["ant"](mode="sum")  # positive weights: terms of one sign lose most
    with torch.no_grad():
        layer.anchors.abs_()
    exported = export(layer, (IDS, OFFSETS))
    offsets = np.array([0, 7, 5007, 5010, 9999])
    ids = np.random.default_rng(0).integers(0, 20, 9999)
    close(exported.opened()(ids, offsets[:-1]), exported.table, ids, offsets, "sum")


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_one_per_row_match_packed_form(export, mode):
    exported = export(BAGS["dpq"](mode=mode))
    run = exported.opened()
    for shape in ((1, 1), (4, 9), (1, 1)):
        ids = np.arange(np.prod(shape)).reshape(shape) % 20
        close(run(ids), exported.table, ids.reshape(-1), shape[1] * np.arange(shape[0] + 1), mode)


@pytest.mark.parametrize(
    ("ids", "offsets"),
    [
        ([0, 1], [0, 3, 2]),
        ([0, 1], [0, 2, 1, 2]),
        ([0, 1], [0, -1, 2]),
        ([0, 1], [1, 2]),
        ([0, 1], [0, 1]),
        ([0, 20], [0, 1, 2]),
        ([0, -1], [0, 1, 2]),
    ],
)
def test_bags_with_invalid_bounds_or_ids_are_refused(export_once, ids, offsets):
    def make():
        return BAGS["dpq"](mode="mean", include_last_offset=True), (IDS, torch.tensor([0, 2, 3, 4]))

    run = export_once("mean", make).opened()
    run(np.array([0, 1]), np.array([0, 1, 2]))
    with pytest.raises(RuntimeError, match=r"GATHER|gather"):
        run(np.array(ids), np.array(offsets))
