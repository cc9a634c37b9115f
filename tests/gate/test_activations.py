"""The gate on a model with sparse activations and no table."""

from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

import edge_embed


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("activations")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 40), edge_embed.Entmax15(), nn.Linear(40, 8), edge_embed.Sparsemax())
    saved = edge_embed.save(model, folder / "model.pt", torch.randn(3, 6))
    edge_embed.export(saved, "onnx", folder / "model.onnx")
    return saved, folder / "model.onnx"


def test_activations_without_table_pass_gate(files: tuple[Path, Path]) -> None:
    report = edge_embed.check(*files)
    assert report.exit_code == 0, report.failures()


def test_activation_of_another_kind_fails_gate_by_name(files: tuple[Path, Path], tmp_path: Path) -> None:
    changed = onnx.load(files[1])
    (node,) = [each for each in changed.graph.node if each.op_type == "Sparsemax"]
    node.op_type = "Entmax15"
    onnx.save(changed, tmp_path / "model.onnx")
    report = edge_embed.check(files[0], tmp_path / "model.onnx")
    assert report.exit_code == 3
    assert any("Sparsemax" in failure and "got Entmax15" in failure for failure in report.failures())
