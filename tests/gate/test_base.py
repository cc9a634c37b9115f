"""The comparison with an earlier file: its measurements, its failures, and its reasons for not running."""

import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.gate import base_latency
from edge_embed.gate.base_latency import base_findings, compare_times, sides_of
from edge_embed.gate.budget import LatencyBudget
from edge_embed.report.results.check import BaseResult, Comparison
from edge_embed.report.results.interval import Interval

from .conftest import Project, Tagger


@pytest.mark.parametrize(
    ("median", "low", "high", "status"),
    [
        (1.12, 1.05, 1.2, "failed"),
        (1.12, 0.99, 1.3, "passed"),  # may be chance
        (1.12, 1.0, 1.3, "passed"),
        (1.09, 1.08, 1.1, "passed"),  # certain, but within the threshold
        (1.1, 1.09, 1.11, "passed"),
        (0.5, 0.4, 0.6, "passed"),
    ],
)
def test_base_comparison_fails_only_if_certainly_slower_than_threshold(
    median: float, low: float, high: float, status: str
) -> None:
    measured = Comparison("model", None, Interval(median, low, high), Interval(9.0, 9.0, 9.0), 1.0, 1.0, "")
    (finding,) = base_findings(BaseResult("", (), (measured,)), Fraction(1, 10))
    assert (finding.status, finding.got, finding.limit) == (status, median, 1.1)


def compare(project: Project, base: Path) -> dict[str, Comparison]:
    program = edge_embed.workflow.load(project.model)
    lowered = edge_embed.workflow.lower_program(program)
    found = compare_times(sides_of(project.exported, base, None), program, lowered, LatencyBudget(iterations=2), 0)
    return {comparison.title: comparison for comparison in found}


def export(module: nn.Module, folder: Path, example: torch.Tensor) -> Path:
    edge_embed.export(module, "onnx", folder / "base.onnx", example)
    return folder / "base.onnx"


def test_base_comparison_measures_model_and_every_table(project: Project) -> None:
    found = compare(project, project.exported)
    assert list(found) == ["model", "table words, rows, 1 a call", "table words, rows, 4,096 a call"]
    for comparison in found.values():
        assert comparison.cpu is not None
        assert comparison.wall is not None
        assert 0 < comparison.cpu.low <= comparison.cpu.median <= comparison.cpu.high
        assert comparison.candidate_microseconds > 0


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what is loaded is read from /proc")
def test_sides_have_libraries_of_their_own(project: Project) -> None:
    library = project.folder / "another.so"
    shutil.copy(edge_embed.get_library_path(), library)
    sides = sides_of(project.exported, project.exported, library)
    sessions = [side.open(side.exported.path) for side in sides]
    loaded = set(Path("/proc/self/maps").read_text().split())
    assert {str(library), str(edge_embed.get_library_path())} <= loaded
    assert len(sessions) == 2


def test_base_with_another_table_is_measured_where_possible(project: Project) -> None:
    class Other(Tagger):
        def __init__(self) -> None:
            super().__init__()
            self.words = edge_embed.DPQEmbedding(100, 16, num_codes=16, num_groups=4)

    found = compare(project, export(Other(), project.folder, torch.tensor([[3, 1, 2]])))
    assert "does not run on the inputs of the model" in found["table words, rows, 4,096 a call"].reason

    class Renamed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.verbs, self.tags = Tagger().words, nn.Linear(16, 3)

        def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": self.tags(self.verbs(ids))}

    (project.folder / "base.onnx").unlink()
    found = compare(project, export(Renamed(), project.folder, torch.tensor([[3, 1, 2]])))
    assert found["model"].cpu is not None
    assert found["table words, rows"].reason == "the base has no tensor words.codes"


def test_base_with_other_inputs_is_not_run(project: Project) -> None:
    class Two(Tagger):
        def forward(self, ids: torch.Tensor, more: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": self.tags(self.words(ids) + more)}

    edge_embed.export(Two(), "onnx", project.folder / "base.onnx", (torch.tensor([[3, 1]]), torch.zeros(1, 2, 16)))
    found = compare(project, project.folder / "base.onnx")
    assert found["model"].cpu is None
    assert "the base does not run on the inputs of the model" in found["model"].reason
    (finding, *_) = base_findings(BaseResult("", (), tuple(found.values())), Fraction(1, 10))
    assert (finding.status, finding.detail) == ("not run", found["model"].reason)


def test_subject_that_seems_slower_is_measured_again_for_longer(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:

    asked: list[tuple[str, int]] = []

    def measured(subject: Any, iterations: int) -> Comparison:
        asked.append((subject.name, iterations))
        slower = iterations == 2 and subject.name == "model"
        ratio = Interval(1.2, 1.1, 1.3) if slower else Interval(1.0, 0.9, 1.1)
        return Comparison(subject.name, subject.items, ratio, ratio, 1.0, 1.0, "")

    monkeypatch.setattr(base_latency, "_compare", measured)
    found = compare(project, project.exported)
    assert asked == [("model", 2), ("model", 8), ("table words, rows", 2), ("table words, rows", 2)]
    assert found["model"].cpu == Interval(1.0, 0.9, 1.1)
