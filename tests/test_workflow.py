"""Python functions of the workflow: save, lower, export, validate."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.packed.file import load_tables, save_tables


@pytest.fixture
def layer() -> edge_embed.DPQEmbedding:
    torch.manual_seed(0)
    return edge_embed.DPQEmbedding(50, 8, num_codes=4, num_groups=2, padding_idx=3)


IDS = torch.tensor([[1, 2, 3]])


@pytest.mark.slow
def test_module_exports_and_validates_without_file(layer: edge_embed.DPQEmbedding, tmp_path: Path) -> None:
    edge_embed.export(layer, "onnx", tmp_path / "out.onnx", IDS)
    report = edge_embed.validate(layer, tmp_path / "out.onnx", IDS)
    assert report.passed
    rows = edge_embed.create_session(tmp_path / "out.onnx").run(None, {"ids": IDS.numpy()})[0]
    np.testing.assert_array_equal(rows, layer.eval()(IDS).detach().numpy())


def test_lowered_tables_are_kept_in_packed_file(layer: edge_embed.DPQEmbedding, tmp_path: Path) -> None:
    lowered = edge_embed.lower(layer, IDS)
    save_tables(tmp_path / "tables.safetensors", lowered.tables)
    (table,) = load_tables(tmp_path / "tables.safetensors").values()
    np.testing.assert_array_equal(table.rows(np.arange(50)), layer.eval()(torch.arange(50)).detach().numpy())


def test_module_without_example_inputs_is_refused(layer: edge_embed.DPQEmbedding, tmp_path: Path) -> None:
    with pytest.raises(edge_embed.BadInputError, match="example_inputs"):
        edge_embed.export(layer, "onnx", tmp_path / "out.onnx")


def test_save_leaves_model_unchanged(layer: edge_embed.DPQEmbedding, tmp_path: Path) -> None:
    model = nn.Sequential(layer, nn.Dropout()).train()
    layer.eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    edge_embed.save(model, tmp_path / "model.pt", IDS)
    assert model.training
    assert model[1].training
    assert not layer.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_save_of_data_dependent_model_leaves_no_file(tmp_path: Path) -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(edge_embed.BadInputError, match="Branches"):
        edge_embed.save(Branches(), tmp_path / "model.pt", torch.ones(3))
    assert list(tmp_path.iterdir()) == []


def test_model_that_changes_buffer_is_refused_by_name(tmp_path: Path) -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return x + self.calls

    with pytest.raises(edge_embed.BadInputError, match="calls"):
        edge_embed.save(Counts(), tmp_path / "model.pt", torch.ones(3))


def test_save_keeps_existing_file_unless_forced(layer: edge_embed.DPQEmbedding, tmp_path: Path) -> None:
    path = edge_embed.save(layer, tmp_path / "model.pt", IDS)
    first = path.read_bytes()
    with pytest.raises(edge_embed.BadInputError, match="force"):
        edge_embed.save(layer, path, IDS)
    assert path.read_bytes() == first
    edge_embed.save(layer, path, IDS, force=True)


def test_dimensions_fixed_by_user_stay_fixed(layer: edge_embed.DPQEmbedding, tmp_path: Path) -> None:
    shapes = {"ids": {0: torch.export.Dim("users"), 1: torch.export.Dim.STATIC}}
    report = edge_embed.export(layer, "onnx", tmp_path / "out.onnx", IDS, shapes)
    assert report.dynamic["ids"] == ["users"]
    assert report.frozen["ids"] == ["3"]


@pytest.mark.parametrize(
    ("model", "example", "message"),
    [
        (edge_embed.DPQEmbedding(50, 8, 4, 2), torch.tensor([50]), "id 50 is out of range"),
        (edge_embed.DPQEmbedding(50, 8, 4, 2), None, "expected a tensor"),
        ("a path", torch.tensor([1]), "Module"),
    ],
)
def test_save_refuses_inputs_that_do_not_run(model: nn.Module, example: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(edge_embed.BadInputError, match=message):
        edge_embed.save(model, tmp_path / "model.pt", example)
    assert list(tmp_path.iterdir()) == []


def test_unknown_external_data_is_refused(layer: edge_embed.DPQEmbedding, tmp_path: Path) -> None:
    with pytest.raises(edge_embed.BadInputError, match="auto, always, never"):
        edge_embed.export(layer, "onnx", tmp_path / "out.onnx", IDS, external_data="sometimes")


def test_recurrent_program_captured_by_torch_exports(tmp_path: Path) -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = edge_embed.DPQEmbedding(50, 8, 4, 2)
            self.lstm = nn.LSTM(8, 4, batch_first=True)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.lstm(self.table(ids))[0]

    model = Tagger().eval()
    torch.export.save(torch.export.export(model, (IDS,)), tmp_path / "elsewhere.pt2")
    edge_embed.export(tmp_path / "elsewhere.pt2", "onnx", tmp_path / "out.onnx")
    (got,) = edge_embed.create_session(tmp_path / "out.onnx").run(None, {"ids": IDS.numpy()})
    np.testing.assert_allclose(got, model(IDS).detach().numpy(), atol=1e-6)


def test_packed_sequences_and_projections_are_refused_by_name(tmp_path: Path) -> None:
    class PackedTable(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = edge_embed.DPQEmbedding(50, 8, 4, 2)
            self.lstm = nn.LSTM(8, 4, batch_first=True)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            lengths = torch.tensor([3])
            return self.lstm(nn.utils.rnn.pack_padded_sequence(self.table(ids), lengths, batch_first=True))[1][0]

    with pytest.raises(edge_embed.BadInputError, match="packed sequences"):
        edge_embed.save(PackedTable(), tmp_path / "model.pt", IDS)

    class Projected(PackedTable):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.lstm(self.table(ids))[0]

    model = Projected()
    model.lstm = nn.LSTM(8, 4, proj_size=2, batch_first=True)
    with pytest.raises(edge_embed.BadInputError, match="proj_size=2"):
        edge_embed.save(model, tmp_path / "model.pt", IDS)
