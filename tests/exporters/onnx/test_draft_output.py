"""Draft models in ONNX files: ids of the target model, from compressed rows and their map."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError

N, R, D = 300, 100, 12


class Draft(nn.Module):
    """A recurrent draft model that returns the best ids of its target."""

    def __init__(self, output: edge_embed.DraftOutput) -> None:
        super().__init__()
        self.lstm = nn.LSTM(D, D, batch_first=True)
        self.output = output

    def forward(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.output.topk(self.lstm(hidden)[0], 3)


@pytest.fixture
def draft() -> Draft:
    torch.manual_seed(0)
    kept = edge_embed.frequent_ids(torch.rand(N), R)
    return Draft(edge_embed.DraftOutput.from_linear(nn.Linear(D, N), kept)).eval()


@pytest.mark.parametrize("method", ["tiered", "dpq", "rows"])
@pytest.mark.parametrize("map_type", [torch.int32, torch.int64])
def test_exported_draft_returns_ids_of_target_model(
    draft: Draft, tmp_path: Path, method: str, map_type: torch.dtype
) -> None:
    draft.output.d2t = draft.output.d2t.to(map_type)
    small, _ = edge_embed.compress(draft, method, modules=["output.output"], ratio=2)
    path = tmp_path / "draft.onnx"
    edge_embed.export(small, "onnx", path, torch.randn(2, 4, D))
    hidden = torch.randn(3, 5, D)
    values, ids = edge_embed.create_session(path).run(None, {"hidden": hidden.numpy()})
    expected = small(hidden)
    np.testing.assert_allclose(values, expected[0].detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ids, expected[1].numpy())
    assert set(ids.ravel().tolist()) <= set(draft.output.target_ids.tolist())
    stored = [each for each in onnx.load(path).graph.initializer if list(each.dims) == [R] and each.data_type in (6, 7)]
    assert [onnx.helper.tensor_dtype_to_np_dtype(each.data_type).itemsize for each in stored] == [map_type.itemsize]


def test_dense_draft_is_refused_as_other_dense_models(draft: Draft, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="the model has no compressed table"):
        edge_embed.export(draft, "onnx", tmp_path / "draft.onnx", torch.randn(2, 4, D))
    assert not list(tmp_path.iterdir())


def test_saved_dense_draft_is_compressed_and_exported(draft: Draft, tmp_path: Path) -> None:
    hidden = torch.randn(2, 4, D)
    edge_embed.save(draft, tmp_path / "draft.pt", hidden)
    edge_embed.compress(tmp_path / "draft.pt", "rows", modules=["output.output"], bits=8, output=tmp_path / "small.pt")
    edge_embed.export(tmp_path / "small.pt", "onnx", tmp_path / "small.onnx")
    values, ids = edge_embed.create_session(tmp_path / "small.onnx").run(None, {"hidden": hidden.numpy()})
    expected = draft(hidden)
    np.testing.assert_allclose(values, expected[0].detach().numpy(), atol=0.02)
    assert (ids == expected[1].numpy()).mean() > 0.9
