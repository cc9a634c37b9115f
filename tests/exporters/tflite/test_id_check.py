"""TFLite files with a check of ids: the result for wrong ids, and the same numbers for the others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import edge_embed
from edge_embed.exporters.tflite.export import export_tflite
from edge_embed.lowering.graph import LoweredProgram

from .conftest import open_litert

N = 20
IDS = np.array([[1, 0, 3], [4, 19, 0]])
WRONG = np.array([[1, N, 3], [4, 19, -1]])


class Rows(nn.Module):
    """Rows of every method, next to each other."""

    def __init__(self) -> None:
        super().__init__()
        self.dpq = edge_embed.DPQEmbedding(N, 6, num_codes=4, num_groups=3, padding_idx=0)
        self.ant = edge_embed.ANTEmbedding(N, 6, 4)
        self.tt = edge_embed.TTEmbedding(N, 6, rank=2)

    def forward(self, ids: Tensor) -> Tensor:
        return torch.cat([self.dpq(ids), self.ant(ids), self.tt(ids)], -1)


class Bags(nn.Module):
    """Weighted sums of bags."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.ANTEmbeddingBag(N, 6, 4, mode="sum", padding_idx=0)

    def forward(self, ids: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
        return self.words(ids, offsets, per_sample_weights=weights)


def lowered_of(model: nn.Module, *example: Tensor) -> LoweredProgram:
    return edge_embed.lower(model.eval(), example)


def opened(lowered: LoweredProgram, folder: Path, id_check: str | None):
    path = folder / f"{id_check}.tflite"
    export_tflite(replace(lowered, id_check=id_check), path, force=True)
    return open_litert(path, [declared.name for declared in lowered.program.inputs])


@pytest.mark.parametrize("kind", ["int64", pytest.param("int32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("values", [torch.float32, pytest.param(torch.float16, marks=pytest.mark.slow)])
def test_rows_of_wrong_ids_are_nan_or_errors_and_others_keep_bits(tmp_path, kind, values):
    lowered = lowered_of(Rows().to(values), torch.from_numpy(IDS.astype(kind)))
    plain, nan, error = (opened(lowered, tmp_path, id_check) for id_check in (None, "nan", "error"))
    for ids in (IDS, IDS[:, :0], IDS.reshape(6, 1)):
        expected = plain(ids.astype(kind))
        for run in (nan, error):
            got = run(ids.astype(kind))
            assert (got.dtype, got.shape, got.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
    rows, is_wrong = nan(WRONG.astype(kind)), np.array([[0, 1, 0], [0, 0, 1]], bool)
    assert np.isnan(rows[is_wrong]).all()
    assert rows[~is_wrong].tobytes() == plain(IDS.astype(kind))[~is_wrong].tobytes()
    with pytest.raises(RuntimeError, match="out of bounds"):
        error(WRONG.astype(kind))


@pytest.mark.slow
def test_ids_of_64_bits_are_not_cut(tmp_path):
    nan = opened(lowered_of(Rows(), torch.tensor([[1, 2]])), tmp_path, "nan")
    rows = nan(np.array([[1, 2**32 + 1, -(2**63)], [2**63 - 1, 0, 2**32]]))
    np.testing.assert_array_equal(np.isnan(rows).all(-1), [[0, 1, 1], [1, 0, 1]])


def test_bag_with_wrong_id_is_nan_or_error(tmp_path):
    example = torch.tensor([1, 2, 0]), torch.tensor([0, 2]), torch.ones(3)
    lowered = lowered_of(Bags(), *example)
    plain, nan, error = (opened(lowered, tmp_path, id_check) for id_check in (None, "nan", "error"))
    offsets, weights = np.array([0, 2, 2, 3]), np.array([1, 0, 2, 3], np.float32)
    for ids, at in ((np.array([1, 4, 0, 19]), offsets), (np.zeros(0, int), np.array([0, 0]))):
        given = ids, at, weights[: len(ids)]
        assert nan(*given).tobytes() == error(*given).tobytes() == plain(*given).tobytes()
    given = np.array([1, N, 0, -1]), offsets, weights  # the first wrong id has the weight 0
    np.testing.assert_array_equal(np.isnan(nan(*given)).all(-1), [True, False, False, True])
    with pytest.raises(RuntimeError, match="out of bounds"):
        error(*given)


class Whole(nn.Module):
    """Compressed and dense tables in front of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(N, 6, num_codes=4, num_groups=3)
        self.dense = nn.Embedding(N, 6)
        self.bags = nn.EmbeddingBag(N, 6, mode="mean", padding_idx=0)
        self.register_buffer("labels", torch.arange(2 * N, dtype=torch.int8).reshape(N, 2))
        self.layer = nn.Linear(6, 3)

    def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
        return self.layer(self.words(ids)), self.dense(ids), self.bags(ids), nn.functional.embedding(ids, self.labels)


@pytest.mark.slow
def test_dense_tables_of_whole_model_are_checked(tmp_path):
    pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")
    from ai_edge_litert.interpreter import Interpreter

    edge_embed.save(Whole().eval(), tmp_path / "m.pt", torch.from_numpy(IDS.astype(np.int32)))
    found = {}
    for id_check in (None, "nan", "error"):
        path = tmp_path / f"{id_check}.tflite"
        edge_embed.export(tmp_path / "m.pt", "tflite", path, id_check=id_check)
        found[id_check] = Interpreter(model_path=str(path)).get_signature_runner()

    def run(id_check, ids):
        return [values for _, values in sorted(found[id_check](ids=ids.astype(np.int32)).items())]

    for wanted, nan, error in zip(*(run(id_check, IDS) for id_check in found), strict=True):
        assert wanted.tobytes() == nan.tobytes() == error.tobytes()
    *rows, bags, labels = run("nan", WRONG)
    for each in rows:
        np.testing.assert_array_equal(np.isnan(each).all(-1), [[0, 1, 0], [0, 0, 1]])
    assert np.isnan(bags).all()
    assert labels[0].tolist() == [[2, 3], [-128] * 2, [6, 7]]
    with pytest.raises(RuntimeError, match="out of bounds"):
        run("error", WRONG)


@pytest.mark.slow
@pytest.mark.parametrize(("id_check", "said"), [("nan", "wrong ids give NaN"), ("error", "invalid inputs are refused")])
def test_validate_requires_stated_result(tmp_path, id_check, said):
    edge_embed.save(Bags().eval(), tmp_path / "m.pt", (torch.tensor([1, 2, 0]), torch.tensor([0, 2]), torch.ones(3)))
    edge_embed.export(tmp_path / "m.pt", "tflite", tmp_path / "m.tflite", id_check=id_check)
    report = edge_embed.validate(tmp_path / "m.pt", tmp_path / "m.tflite", iterations=0)
    assert report.passed, str(report)
    checks = [check for table in report.tables for check in table.paths if check.status != "not run"]
    details = [check.detail for check in checks if check.name.startswith(("litert", "tflite-runtime"))]
    assert len(details) >= 2
    assert all(said in detail for detail in details)
