"""Methods registered from outside: each stage with a part of the method works, and each other stage refuses it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import inspect_file
from edge_embed.methods import Method, Parts, register, unregister
from edge_embed.methods.registry import STAGES
from edge_embed.packed import load_tables, save_tables

from .toy import PackedX, X, XEmbedding

IDS = torch.tensor([[0, 7, 3]])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = XEmbedding(30, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.words(ids))


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    register(X)
    yield
    unregister("x")


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Model().eval()


@pytest.fixture(scope="module")
def saved(model: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("toy") / "model.pt"
    edge_embed.save(model, path, (IDS,))
    return path


@pytest.fixture(scope="module")
def exported(saved: Path) -> Path:
    path = saved.with_suffix(".onnx")
    edge_embed.export(saved, "onnx", path)
    return path


def test_packed_file_of_outside_method_is_read_back(tmp_path):
    table = PackedX(np.arange(12, dtype=np.float32).reshape(4, 3))
    save_tables(tmp_path / "tables.safetensors", {"words": table})
    rows = load_tables(tmp_path / "tables.safetensors")["words"].rows([3, 0])
    np.testing.assert_array_equal(rows, table.stored[[3, 0]])


@pytest.mark.parametrize("name", ["saved", "exported"])
def test_inspect_of_outside_method_names_its_table(name, request):
    (table,) = inspect_file(request.getfixturevalue(name), True).tables
    assert (table.name, table.method, table.num_embeddings, table.embedding_dim) == ("words", "x", 30, 6)


def test_exported_file_of_outside_method_gives_outputs_of_model(model, exported):
    session = ort.InferenceSession(exported, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"ids": IDS.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), model(IDS))


def test_validate_of_outside_method_passes_without_kernel(saved, exported):
    report = edge_embed.validate(saved, exported)
    assert report.passed
    kernel = report.model.kernel
    assert (kernel.status, kernel.detail) == ("not run", "x: the library has no kernel, so the body runs with it too")


def test_tflite_export_of_outside_method_is_refused_by_name(saved, tmp_path):
    with pytest.raises(BadInputError, match="method x: it has no TFLite form; methods with one: dpq, ant, tt"):
        edge_embed.export(saved, "tflite", tmp_path / "model.tflite")
    assert not list(tmp_path.iterdir())


def test_compress_by_outside_method_is_refused_with_methods():
    with pytest.raises(
        BadInputError, match="method: got 'x', expected dpq, opq, ant, tt, tr, low_rank, rows, tiered or auto"
    ):
        edge_embed.compress(nn.Embedding(30, 6), method="x", ratio=2)


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage not in X.parts])
def test_stage_without_part_of_method_is_refused(stage):
    with pytest.raises(BadInputError, match=f"method x: it has no {STAGES[stage]}; methods with one: dpq, "):
        Parts(stage)["x"]


@pytest.mark.parametrize("stage", STAGES)
def test_parts_of_stage_hold_only_registered_methods(stage):
    parts = Parts(stage)
    assert len(list(parts.values())) == len(parts) > 1
    assert "y" not in parts
    with pytest.raises(KeyError):
        parts["y"]


def test_method_with_registered_name_is_refused():
    with pytest.raises(BadInputError, match="got a second 'dpq', expected a name other than dpq, opq, ant"):
        register(Method("dpq", {}))


def test_part_for_unknown_stage_is_refused():
    with pytest.raises(BadInputError, match="method y: got a part for 'paint', expected stages packed, operators"):
        register(Method("y", {"paint": "y:Y"}))
