"""`make gpu-check` on the processor: its checks run, and what is wrong fails."""

from functools import partial
from pathlib import Path

import pytest
import torch

from tests.gpu import latency, layers, models
from tests.gpu.__main__ import main

CPU = ("--device", "cpu", "--rows", "700")


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "LAYERS", {name: layers.LAYERS[name] for name in ("TT", "ANT")})
    monkeypatch.setattr(latency, "Sizes", partial(latency.Sizes, batch=64, rounds=3, seconds=0.1))
    monkeypatch.setattr(models, "MODELS", {"TT bag": models.MODELS["TT bag"]})


@pytest.mark.slow
def test_gpu_check_on_cpu_reports_every_part_and_passes(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    parts = ("--part", "layers", "--part", "models", "--part", "latency")
    assert main([*CPU, *parts, "--report", str(report)]) == 0
    text = report.read_text()
    assert text.count("\n## ") == 8
    assert "FAILED" not in text
    assert f"torch {torch.__version__}" in text


def test_gpu_check_with_wrong_numbers_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(1, 100))
    monkeypatch.setattr(layers, "_uses", lambda layer, device: {"rows": torch.full((3,), float(next(numbers)))})
    assert layers.parity("cpu").failures == 2 * 3  # two layers in three states


def test_gpu_check_without_gpu_ends_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == 2
    assert "found no GPU" in capsys.readouterr().err
