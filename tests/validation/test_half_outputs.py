"""Outputs computed in float16, and only these, are compared with the rounding of float16."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import edge_embed
from edge_embed.program.load import capture_program
from edge_embed.program.program import ProgramInterpreter
from edge_embed.validation.float16_outputs import half_scales
from edge_embed.validation.options import ValidationOptions

IDS = torch.tensor([[1, 2, 3]])


class Mixed(nn.Module):
    """A float32 model with one output computed in another type."""

    def __init__(self, dtype: torch.dtype, by_hand: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.dtype, self.by_hand = dtype, by_hand
        self.words = edge_embed.DPQEmbedding(400, 64, 16, 16).freeze()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        rows = self.words(ids)
        if self.by_hand:
            narrow = torch.relu(nn.functional.linear(rows.to(self.dtype), self.first.weight.to(self.dtype)))
            return narrow.float() * 10, self.second(rows)
        with torch.autocast("cpu", dtype=self.dtype):
            narrow = self.second(torch.relu(self.first(rows)))
        return narrow.float() * 10, self.first(rows)


@pytest.mark.parametrize("by_hand", [False, True])
def test_outputs_computed_in_float16_are_found(by_hand: bool) -> None:
    assert list(half_scales(capture_program(Mixed(torch.float16, by_hand), IDS))) == ["output_0"]
    assert half_scales(capture_program(Mixed(torch.float32, by_hand), IDS)) == {}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[torch.dtype], tuple[Path, Path]]:
    """Return a function that gives a saved model of a type and its exported file, made at the first call."""

    @cache
    def made(dtype: torch.dtype) -> tuple[Path, Path]:
        folder = tmp_path_factory.mktemp("mixed")
        edge_embed.save(Mixed(dtype), folder / "m.pt", IDS)
        edge_embed.export(folder / "m.pt", "onnx", folder / "m.onnx")
        return folder / "m.pt", folder / "m.onnx"

    return made


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float16, 1e-3), (torch.bfloat16, 1e-5)])
def test_autocast_export_of_float32_model_passes(exported, dtype: torch.dtype, atol: float) -> None:
    report = edge_embed.validate(*exported(dtype), iterations=0)
    assert report.passed, str(report)
    details = str(report.to_json())
    assert f"atol: {atol:g}" in details
    assert "atol: 1e-05" in details  # of the other output


def test_tolerance_from_option_applies_to_all_outputs(exported) -> None:
    assert not edge_embed.validate(*exported(torch.float16), atol=1e-9, rtol=1e-9, iterations=0).passed


class Cancelling(nn.Module):
    """Logits in float16, whose summands cancel in some of them."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.words = edge_embed.DPQEmbedding(rows, width, 16, 16).freeze()
        self.weight = nn.Parameter(torch.randn(300, width))

    def forward(self, ids: Tensor) -> Tensor:
        return nn.functional.linear(torch.sin(self.words(ids) * 9).half(), self.weight.half()).float()


@pytest.mark.parametrize(("rows", "width"), [(300, 64), (200, 128)])
def test_half_scales_of_large_outputs_are_their_root_mean_square(rows: int, width: int) -> None:
    program = capture_program(Cancelling(rows, width), IDS)
    (output,) = program.run(IDS)
    assert half_scales(program) == {"output": pytest.approx(float(output.double().square().mean().sqrt()))}
    atol = ValidationOptions().for_weights(half=False, half_scales=half_scales(program)).atol
    assert atol.of("output") == pytest.approx(1e-3 * half_scales(program)["output"])
    assert atol.of("another") == 1e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_half_scales_of_float16_table_follow_the_type_of_its_rows(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = edge_embed.DPQEmbedding(300, 64, 16, 16).freeze().to(dtype)

        def forward(self, ids: Tensor) -> Tensor:
            return torch.tanh(self.words(ids)).float()

    program = capture_program(Rows(), IDS)
    runs = []
    run = ProgramInterpreter.run
    monkeypatch.setattr(ProgramInterpreter, "run", lambda *given: runs.append(given) or run(*given))
    assert list(half_scales(program)) == (["output"] if dtype == torch.float16 else [])
    assert len(runs) == (1 if dtype == torch.float16 else 0)  # a run of a large model takes seconds


@pytest.mark.parametrize("factor", [1e-3, 0.0])
def test_half_scales_of_small_outputs_are_one(factor: float) -> None:
    class Small(Cancelling):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids) * factor

    assert half_scales(capture_program(Small(300, 64), IDS)) == {"output": 1.0}
