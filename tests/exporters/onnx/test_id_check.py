"""Files with a check of ids: the result for wrong ids on every path, and the same numbers for the others."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from onnx import numpy_helper
from torch import Tensor, nn

import edge_embed
from edge_embed import BadInputError
from edge_embed.cli import main
from edge_embed.exporters.onnx.export import export_onnx

from .conftest import PATHS, Exported

N = 20
OFFSETS = torch.tensor([0, 2, 2, 6])  # the second bag is empty, and the fourth where no offset is the end
IDS = [[1, 0, 3], [4, 19, 0]]
WRONG = [[1, N, 3], [4, 19, -1]]  # in the first and the third bag


class Tables(nn.Module):
    """Rows and bags of compressed and dense tables, with padding rows and weights."""

    def __init__(self) -> None:
        super().__init__()
        self.dpq = edge_embed.DPQEmbedding(N, 6, num_codes=4, num_groups=3, padding_idx=0)
        self.tt = edge_embed.TTEmbedding(N, 6, rank=2)
        self.dense = nn.Embedding(N, 6)
        self.ant = edge_embed.ANTEmbeddingBag(N, 6, 4, mode="mean", padding_idx=0)
        self.weighted = edge_embed.DPQEmbeddingBag(N, 6, num_codes=4, num_groups=3, mode="sum")
        self.most = nn.EmbeddingBag(N, 6, mode="max", padding_idx=0)
        self.sums = nn.EmbeddingBag(N, 6, mode="sum", include_last_offset=True)

    def forward(self, ids: Tensor, offsets: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        flat = ids.reshape(-1)
        rows = self.dpq(ids), self.tt(ids), self.dense(ids)
        bags = self.ant(flat, offsets), self.weighted(flat, offsets, per_sample_weights=weights)
        return *rows, *bags, self.most(flat, offsets[:-1]), self.sums(flat, offsets, weights)


def inputs(ids: Any, kind: Any = torch.int64, values: Any = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.tensor(ids).to(kind)
    return ids, OFFSETS if ids.numel() else torch.zeros(4, dtype=torch.int64), torch.zeros(ids.numel(), dtype=values)


def with_check(exported: Exported, id_check: str | None) -> Exported:
    lowered = replace(exported.lowered, id_check=id_check)
    file = export_onnx(lowered, exported.path.with_name(f"{id_check}.onnx"))
    return Exported(exported.model, exported.program, lowered, file)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((torch.int64, torch.float32), id="int64"),
        pytest.param((torch.int32, torch.float16), marks=pytest.mark.slow, id="int32"),
    ],
)
def files(request, tmp_path_factory) -> tuple[Callable[[Any], tuple[Tensor, ...]], dict[Any, Exported]]:
    """Return the inputs for ids, and the files without a check and with each check."""
    from .conftest import export_model

    kind, values = request.param
    torch.manual_seed(0)
    model = Tables().to(values)
    exported = export_model(tmp_path_factory.mktemp("checked"), model, inputs(IDS, kind, values))
    checked = {id_check: with_check(exported, id_check) for id_check in ("nan", "error")}
    return lambda ids: inputs(ids, kind, values), {None: exported, **checked}


@pytest.mark.parametrize("way", PATHS)
class TestPaths:
    def test_valid_ids_give_same_bits_with_check(self, files, way):
        given, exported = files
        for ids in (IDS, [[5], [7]] * 3, [[]]):
            expected = exported[None].run(way, *given(ids))
            for id_check in ("nan", "error"):
                for got, wanted in zip(exported[id_check].run(way, *given(ids)), expected, strict=True):
                    assert (got.dtype, got.shape, got.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())

    def test_wrong_ids_give_rows_and_bags_of_nan(self, files, way):
        given, exported = files
        found, plain = exported["nan"].run(way, *given(WRONG)), exported[None].run(way, *given(IDS))
        is_wrong = np.array([[0, 1, 0], [0, 0, 1]], bool)
        for marked, right in zip(found[:3], plain[:3], strict=True):
            assert np.isnan(marked[is_wrong]).all()
            assert marked[~is_wrong].tobytes() == right[~is_wrong].tobytes()
        for marked in found[3:]:
            np.testing.assert_array_equal(np.isnan(marked).all(-1), [True, False, True, False][: len(marked)])
            assert not marked[1].any()

    @pytest.mark.parametrize("wrong", [-1, N, 2**31 - 1, -(2**31)])
    def test_wrong_id_is_error_that_names_bounds(self, files, way, wrong):
        given, exported = files
        ids = [[1, wrong, 3], [4, 19, 0]]
        with pytest.raises(Exception, match="out of" if way == "reference" else f"expected ids 0 to {N - 1}"):
            exported["error"].run(way, *given(ids))


def test_ids_of_64_bits_are_not_cut(export, make_table):
    exported = export(make_table())
    ids = torch.tensor([[1, 2**32 + 1, -(2**63)], [2**63 - 1, 0, 2**32]])
    (rows,) = with_check(exported, "nan").run("library", ids)
    np.testing.assert_array_equal(np.isnan(rows).all(-1), [[0, 1, 1], [1, 0, 1]])


class Labels(nn.Module):
    """Rows of integers beside compressed ones."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.TTEmbedding(N, 6, rank=2)
        self.register_buffer("labels", torch.arange(2 * N, dtype=torch.int16).reshape(N, 2))
        self.register_buffer("kinds", torch.arange(2 * N, dtype=torch.uint8).reshape(N, 2))

    def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
        looked_up = (nn.functional.embedding(ids, table) for table in (self.labels, self.kinds))
        return self.words(ids), *looked_up


@pytest.mark.slow
def test_wrong_ids_give_lowest_or_highest_integer(export):
    exported = with_check(export(Labels(), torch.tensor([1, 2])), "nan")
    _, labels, kinds = exported.run("portable", torch.tensor([3, -1, N]))
    assert labels.tolist() == [[6, 7], [-(2**15)] * 2, [-(2**15)] * 2]
    assert kinds.tolist() == [[6, 7], [255] * 2, [255] * 2]


class Given(nn.Module):
    """Rows of a table that is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.TTEmbedding(N, 6, rank=2)

    def forward(self, ids: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        return self.words(ids), nn.functional.embedding(ids, table)


@pytest.mark.slow
def test_ids_are_checked_against_rows_of_given_table(export):
    exported = export(Given(), (torch.tensor([1, 2]), torch.rand(9, 5)))
    ids, table = torch.tensor([3, 7, 5, -1]), torch.rand(6, 5)
    words, rows = with_check(exported, "nan").run("portable", ids, table)
    np.testing.assert_array_equal(np.isnan(words).all(-1), [False, False, False, True])
    np.testing.assert_array_equal(np.isnan(rows).all(-1), [False, True, False, True])
    with pytest.raises(Exception, match="expected ids 0 to the number of rows minus 1"):
        with_check(exported, "error").run("portable", ids[:2], table)


class Flags(Labels):
    def __init__(self) -> None:
        super().__init__()
        self.labels, self.kinds = self.labels > 0, self.kinds > 0


@pytest.mark.slow
def test_table_of_bool_is_refused(export):
    with pytest.raises(BadInputError, match="id_check: got a dense table of bool, expected floats"):
        with_check(export(Flags(), torch.tensor([1, 2])), "nan")


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """Return a saved model of a DPQ table, a bag and a dense table."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = edge_embed.DPQEmbedding(N, 6, num_codes=4, num_groups=3)
            self.bags = edge_embed.TTEmbeddingBag(N, 6, rank=2)
            self.dense = nn.Embedding(400, 16)

        def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
            return self.words(ids), self.bags(ids), self.dense(ids)

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("saved") / "model.pt"
    edge_embed.save(Model().eval(), path, torch.tensor([[1, 2], [3, 4]]))
    return path


@pytest.fixture(scope="module")
def marked(saved: Path) -> Path:
    path = saved.with_name("nan.onnx")
    edge_embed.export(saved, "onnx", path, id_check="nan", open=False)
    return path


class TestTools:
    @pytest.mark.parametrize(
        ("id_check", "line"), [("error", "an error if the runtime checks"), ("nan", "rows of NaN, and bags of NaN")]
    )
    def test_export_writes_check_and_states_it(self, saved, tmp_path, id_check, line):
        output = tmp_path / "model.onnx"
        arguments = ["export", str(saved), "--target", "onnx", "--id-check", id_check, "-o", str(output), "--no-open"]
        ran = CliRunner().invoke(main, arguments)
        assert (ran.exit_code, f"ids out of range: {line}" in ran.stdout) == (0, True), ran.output
        assert {item.key: item.value for item in onnx.load(output).metadata_props}["edge_embed.id_check"] == id_check

    def test_unknown_check_is_refused(self, saved, tmp_path):
        with pytest.raises(BadInputError, match="id_check: got 'nans', did you mean 'nan'"):
            edge_embed.export(saved, "onnx", tmp_path / "x.onnx", id_check="nans")
        assert not list(tmp_path.iterdir())

    def test_inspect_shows_tables_of_checked_file(self, marked):
        report = edge_embed.inspect(marked, verify=True)
        assert [table.name for table in report.tables] == ["bags", "words"]

    def test_compress_packs_dense_table_behind_check(self, marked, tmp_path):
        edge_embed.compress(marked, "dpq", ratio=4, output=tmp_path / "small.onnx")
        session = edge_embed.create_session(tmp_path / "small.onnx")
        *_, rows = session.run(None, {"ids": np.array([[1, 2], [400, 3]])})
        assert len([node for node in onnx.load(tmp_path / "small.onnx").graph.node if node.domain]) == 3
        np.testing.assert_array_equal(np.isnan(rows).all(-1), [[0, 0], [1, 0]])


@pytest.mark.slow
class TestValidate:
    def test_validate_requires_nan_for_wrong_ids(self, saved, marked, tmp_path):
        report = edge_embed.validate(saved, marked, iterations=0)
        assert report.passed, str(report)
        details = json.dumps(report.to_json())
        assert details.count("wrong ids give NaN") == 6  # three paths of two tables

        model = onnx.load(marked)
        (mark,) = [item for item in model.graph.initializer if np.isnan(numpy_helper.to_array(item)).any()]
        mark.CopyFrom(numpy_helper.from_array(np.float32(2), mark.name))
        onnx.save(model, tmp_path / "changed.onnx")
        details = json.dumps(edge_embed.validate(saved, tmp_path / "changed.onnx", iterations=0).to_json())
        assert details.count(", expected NaN") >= 6

    def test_validate_requires_error_for_wrong_ids(self, saved, tmp_path):
        edge_embed.export(saved, "onnx", tmp_path / "error.onnx", id_check="error", open=False)
        report = edge_embed.validate(saved, tmp_path / "error.onnx", iterations=0)
        assert report.passed, str(report)
        assert "wrong ids give NaN" not in json.dumps(report.to_json())


def test_validate_refuses_unknown_check_in_file(saved, marked, tmp_path):
    model = onnx.load(marked)
    (noted,) = [item for item in model.metadata_props if item.key == "edge_embed.id_check"]
    noted.value = "zero"
    onnx.save(model, tmp_path / "unknown.onnx")
    with pytest.raises(BadInputError, match=r"unknown.onnx: .*id_check: got 'zero', .*expected one of error, nan"):
        edge_embed.validate(saved, tmp_path / "unknown.onnx", iterations=0)
