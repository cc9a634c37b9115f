"""The gate finds and names every planted fault of an exported file."""

import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.gate.budget import Budget
from edge_embed.gate.check import run_check
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.program.program import Program
from edge_embed.workflow import load, lower

from .plants import ONNX, Plant
from .tflite_plants import TFLITE

LAYERS: dict[str, Any] = {
    "words": lambda: edge_embed.DPQEmbedding(300, 16, num_codes=16, num_groups=4, padding_idx=0),
    "outside": lambda: edge_embed.DPQEmbedding(900, 16, num_codes=16, num_groups=4, padding_idx=0),
    "ant": lambda: edge_embed.ANTEmbedding(300, 16, num_anchors=6),
    "tt": lambda: edge_embed.TTEmbedding(300, 16, rank=4),
}
ONNX_QUICK = ("dense weight: the lowest bit", "bias: the lowest bit", "body: constant 11", "nodes: one more that")


class Tagger(nn.Module):
    """A table and a dense layer."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.words, self.tags = layer, nn.Linear(16, width)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.tags(self.words(ids))}


@dataclass(frozen=True)
class Original:
    """A model and its exported file."""

    program: Program
    lowered: LoweredProgram
    exported: Path

    def check(self, path: Path) -> str:
        """Return the messages of a check of another file, empty if it passes."""
        try:
            report = run_check(
                self.program, self.lowered, path, Budget(), baseline=None, base=None, base_library=None, progress=silent
            )
        except BadInputError as error:
            return str(error)
        assert bool(report.failures()) == (report.exit_code == 3)
        return "\n".join(report.failures())


def silent(step: str, done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that makes a model by its name and the ending of its file at the first call."""

    @cache
    def made(name: str, ending: str) -> Original:
        torch.manual_seed(0)
        folder = tmp_path_factory.mktemp(name)
        model = LAYERS["words"]() if ending == "tflite" and name == "words" else None
        model = model or Tagger(LAYERS.get(name, LAYERS["words"])(), 128 if name == "outside" else 3)
        given = {"vocabulary": [f"w{at}" for at in range(300)], "metadata": {"labels": "NN"}} if name == "words" else {}
        edge_embed.save(model, folder / "model.pt", torch.tensor([[3, 1, 2]]), **given)
        options = {"external_data": "always"} if name == "outside" else {}
        edge_embed.export(folder / "model.pt", ending, folder / f"model.{ending}", **options)
        program = load(folder / "model.pt")
        return Original(program, lower(folder / "model.pt"), folder / f"model.{ending}")

    return made


def copied(original: Original, folder: Path) -> Path:
    for file in original.exported.parent.glob(f"{original.exported.name}*"):
        shutil.copy(file, folder)
    return folder / original.exported.name


def expect_found(plant: Plant, original: Original, folder: Path) -> None:
    path = copied(original, folder)
    plant.change(path)
    said = original.check(path)
    assert plant.said in said, said or "nothing was found"


def parameters(plants: tuple[Plant, ...], quick: tuple[str, ...]) -> list[Any]:
    slow = pytest.mark.slow
    chosen = [any(str(plant).startswith(f"words: {name}") for name in quick) for plant in plants]
    return [
        pytest.param(plant, id=str(plant), marks=() if now else slow) for plant, now in zip(plants, chosen, strict=True)
    ]


def test_plants_are_at_least_as_many_as_before() -> None:
    assert len({str(plant) for plant in (*ONNX, *TFLITE)}) >= 63


@pytest.mark.parametrize("plant", parameters(ONNX, ONNX_QUICK))
def test_gate_with_a_plant_in_an_onnx_file_names_it(plant: Plant, originals: Any, tmp_path: Path) -> None:
    expect_found(plant, originals(plant.model, "onnx"), tmp_path)


@pytest.mark.parametrize("plant", parameters(TFLITE, ("constant: the", "operator: inputs", "tensor: a scale")))
def test_gate_with_a_plant_in_a_tflite_file_names_it(plant: Plant, originals: Any, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")
    if plant.model == "tags":
        pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite] is not installed")
    expect_found(plant, originals(plant.model, "tflite"), tmp_path)


@pytest.mark.parametrize(("name", "ending"), [("words", "onnx"), ("outside", "onnx"), ("words", "tflite")])
def test_gate_without_a_plant_passes(name: str, ending: str, originals: Any, tmp_path: Path) -> None:
    original = originals(name, ending)
    assert original.check(copied(original, tmp_path)) == ""
