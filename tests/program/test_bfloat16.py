"""bfloat16 becomes float32 before lowering, in weights, inputs and casts; the report names them."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto
from torch import nn

import edge_embed
from edge_embed.program.bfloat16 import in_float32
from edge_embed.program.load import capture_program
from edge_embed.report.views.exported import widened_words

IDS = torch.tensor([[1, 2, 3], [4, 5, 0]])


class Model(nn.Module):
    """A table, a layer with a dtype of its own behind it, and optionally autocast around both."""

    def __init__(self, layer: nn.Module, autocast: bool = False) -> None:
        super().__init__()
        self.words = edge_embed.TTEmbedding(40, 8, rank=2)
        self.layer, self.autocast = layer, autocast

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            output = self.layer(self.words(ids))
        return output[0] if isinstance(output, tuple) else output


class Added(nn.Module):
    """An input in bfloat16 beside the ids."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(40, 8, 4, 2).freeze()

    def forward(self, ids: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        return (self.words(ids) + offset).to(torch.bfloat16)


def assert_runs_in_float32(model, example, tmp_path, **given):
    path = tmp_path / "model.onnx"
    report = edge_embed.export(model, "onnx", path, example)
    kinds = {value.type.tensor_type.elem_type for value in onnx.load(path).graph.value_info}
    kinds |= {tensor.data_type for tensor in onnx.load(path).graph.initializer}
    assert TensorProto.BFLOAT16 not in kinds
    session = edge_embed.create_session(path)
    inputs = [*example] if isinstance(example, tuple) else [example]
    names = [item.name for item in session.get_inputs()]
    feeds = [tensor.float().numpy() if tensor.is_floating_point() else tensor.numpy() for tensor in inputs]
    got = session.run(None, dict(zip(names, feeds, strict=True)))[0]
    with torch.no_grad():
        wanted = model.eval()(*inputs).float().numpy()
    assert got.dtype == np.float32
    # The model rounds each of some ten steps to 8 bits.
    np.testing.assert_allclose(got, wanted, rtol=0, atol=10 * 2.0**-8 * np.abs(wanted).max())
    return report


@pytest.mark.parametrize("layer", [nn.Linear(8, 4), nn.LSTM(8, 4, batch_first=True), nn.LayerNorm(8)])
def test_export_of_bfloat16_model_runs_and_names_weights(tmp_path, layer):
    torch.manual_seed(0)
    report = assert_runs_in_float32(Model(layer).bfloat16(), IDS, tmp_path)
    weights = {f"layer.{name}": 4 * weight.numel() for name, weight in layer.named_parameters()}
    assert weights.items() <= report.widened.weights.items()
    assert report.to_json()["widened"]["weights"]["words.cores.0"] > 0
    assert "bfloat16 is stored as float32" in widened_words(report.widened)


def test_export_of_model_with_one_bfloat16_layer_widens_only_that(tmp_path):
    class Cast(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x.bfloat16()).float()

    report = assert_runs_in_float32(Model(Cast(8, 4).bfloat16()), IDS, tmp_path)
    assert set(report.widened.weights) == {"layer.weight", "layer.bias"}
    assert report.widened.calls == 1


def test_export_of_model_with_autocast_inside_runs(tmp_path):
    report = assert_runs_in_float32(Model(nn.Linear(8, 4), autocast=True), IDS, tmp_path)
    assert report.widened.calls > 0
    assert not report.widened.weights


def test_bfloat16_input_becomes_float32(tmp_path):
    example = (IDS, torch.randn(2, 3, 8).bfloat16())
    report = assert_runs_in_float32(Added(), example, tmp_path)
    assert report.widened.inputs == ("offset",)


@pytest.mark.slow
def test_validate_of_bfloat16_model_passes(tmp_path):
    model = Model(nn.Linear(8, 4)).bfloat16()
    edge_embed.save(model, tmp_path / "model.pt", IDS)
    edge_embed.export(tmp_path / "model.pt", "onnx", tmp_path / "model.onnx")
    assert edge_embed.validate(tmp_path / "model.pt", tmp_path / "model.onnx").passed


def test_program_without_bfloat16_stays_the_same_object():
    program = capture_program(Model(nn.Linear(8, 4)).half(), IDS)
    assert in_float32(program) is program
    assert not program.widened


def test_program_given_to_in_float32_stays_in_bfloat16():
    program = capture_program(Model(nn.Linear(8, 4)).bfloat16(), IDS)
    wide = in_float32(program)
    assert program.module.weight("layer.weight").dtype == torch.bfloat16
    assert wide.module.weight("layer.weight").equal(program.module.weight("layer.weight").float())
    assert wide.run(IDS)[0].dtype == torch.float32
