"""Tables whose rows are all zero: they are named, and exported only on request."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

import edge_embed
from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.packed.ant import PackedANT

IDS = torch.tensor([[1, 2, 3]])


def emptied_ant() -> nn.Module:
    layer = edge_embed.ANTEmbedding(50, 8, 4)
    nn.init.constant_(layer.transform, -1)
    return layer


def emptied_dpq() -> nn.Module:
    layer = edge_embed.DPQEmbedding(50, 8, 4, 2)
    nn.init.zeros_(layer.value)
    return layer.freeze(value_type="int8")


def emptied_tt() -> nn.Module:
    layer = edge_embed.TTEmbedding(50, 8, 2)
    nn.init.zeros_(next(layer.parameters()))
    return layer


LAYERS: dict[str, Callable[[], nn.Module]] = {"ant": emptied_ant, "dpq": emptied_dpq, "tt": emptied_tt}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def saved(layer: nn.Module, folder: Path) -> Path:
    model = nn.ModuleDict({"words": layer, "others": edge_embed.DPQEmbedding(50, 8, 4, 2)}).eval()
    model.forward = lambda ids: model["words"](ids) + model["others"](ids)  # type: ignore[method-assign]
    return edge_embed.save(model, folder / "model.pt", IDS)


@pytest.mark.parametrize("method", LAYERS)
def test_export_of_zero_table_names_it_and_is_refused(method: str, tmp_path: Path) -> None:
    model = saved(LAYERS[method](), tmp_path)
    result = run("export", model, "--target", "onnx", "-o", tmp_path / "model.onnx")
    assert result.exit_code == 2
    assert "table words: all rows are zero" in result.stderr
    assert "--allow-empty" in result.stderr
    assert "others" not in result.stderr
    assert not (tmp_path / "model.onnx").exists()


def test_export_names_every_zero_table(tmp_path: Path) -> None:
    model = nn.Sequential(nn.ModuleList((emptied_ant(), emptied_tt(), edge_embed.TTEmbedding(50, 8, 2)))).eval()
    model.forward = lambda ids: sum(table(ids) for table in model[0])  # type: ignore[method-assign]
    with pytest.raises(BadInputError) as refused:
        edge_embed.export(model, "onnx", tmp_path / "model.onnx", IDS)
    named = [name for name in ("0.0", "0.1", "0.2") if f"table {name}: all rows are zero" in str(refused.value)]
    assert named == ["0.0", "0.1"]


def test_allow_empty_exports_zero_table_and_report_says_so(tmp_path: Path) -> None:
    model = saved(emptied_ant(), tmp_path)
    with pytest.raises(BadInputError, match="table words: all rows are zero"):
        edge_embed.export(model, "onnx", tmp_path / "model.onnx")
    result = run("export", model, "--target", "onnx", "-o", tmp_path / "model.onnx", "--allow-empty", "--json")
    assert result.exit_code == 0
    assert {table["name"]: table["is_zero"] for table in json.loads(result.stdout)["tables"]} == {
        "words": True,
        "others": False,
    }


def test_inspect_of_zero_table_says_so(tmp_path: Path) -> None:
    model = saved(emptied_ant(), tmp_path)
    edge_embed.export(model, "onnx", tmp_path / "model.onnx", allow_empty=True)
    for file in (model, tmp_path / "model.onnx"):
        (line,) = (line for line in str(edge_embed.inspect(file)).splitlines() if "all rows are zero" in line)
        assert line.startswith("words")


def test_lower_of_zero_table_warns_with_its_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    edge_embed.lower(saved(emptied_ant(), tmp_path))
    (record,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert record.getMessage().startswith("table words: all rows are zero")


def test_table_with_one_nonzero_row_is_exported(tmp_path: Path) -> None:
    layer = emptied_ant()
    with torch.no_grad():
        layer.transform[49, 1] = 1
    assert edge_embed.export(saved(layer, tmp_path), "onnx", tmp_path / "model.onnx").tables[0].lowered


def test_table_of_only_padding_row_is_not_zero_table() -> None:
    def packed(rows: int) -> PackedANT:
        return PackedANT.from_dense(np.zeros((rows, 2), np.float32), np.ones((2, 3), np.float32), padding_idx=0)

    assert not packed(1).is_zero
    assert packed(2).is_zero


@pytest.mark.parametrize("options", [{"method": "rows", "bits": 4}, {"ratio": 4}])
def test_compress_of_zero_table_names_it(
    options: dict[str, object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = nn.ModuleDict({"words": nn.Embedding(200, 8), "others": nn.Embedding(200, 8)})
    nn.init.zeros_(model["words"].weight)
    _, report = edge_embed.compress(model, **options)
    assert [(table.name, table.is_zero) for table in report.tables] == [("words", True), ("others", False)]
    assert "table words: all rows are zero" in caplog.text
    assert "others" not in caplog.text
