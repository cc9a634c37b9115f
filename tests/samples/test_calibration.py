"""The sample of calibration: its figures, its examples and its table of results."""

from pathlib import Path

import calibration
import numpy as np
import pytest
import torch
from torch import nn

from edge_embed.workflow import load

WORDS = 50


def case() -> calibration.Case:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 8), nn.Linear(8, WORDS)).eval()
    words = torch.arange(5_000) * 7 % WORDS
    return calibration.Case("words", model, ["0"], words, words[:1_001])


def test_figures_of_the_dense_model_are_those_of_no_change() -> None:
    made = case()
    figures = made.figures(load(made.model, (torch.zeros(2, 9, dtype=torch.int64),)))
    assert figures["KL"] == pytest.approx(0, abs=1e-6)
    assert figures["top-1"] == 1
    logits = made.model(made.test[:1_000]).double()
    expected = nn.functional.cross_entropy(logits, made.test[1:1_001]).exp()
    assert figures["perplexity"] == pytest.approx(float(expected), rel=1e-4)


def test_examples_hold_all_words_in_pieces(tmp_path: Path) -> None:
    words = case().training
    with np.load(calibration.write_examples(words, tmp_path)) as stored:
        pieces = [stored[f"{at}/ids"] for at in range(len(stored.files))]
    assert {piece.shape[1] for piece in pieces} == {128}
    np.testing.assert_array_equal(np.concatenate(pieces).reshape(-1), words[: 5_000 // 128 * 128])


def test_report_shows_figures_before_and_after() -> None:
    figures = {"KL": 0.25, "top-1": 0.5, "perplexity": 90.0}
    after = {name: {"mean": value / 2, "half": 0.01} for name, value in figures.items()}
    row = {"model": "m", "method": "auto: K=2", "bytes": 1234, "before": figures, "after": after}
    text = calibration.markdown({"command": "python x", "rows": [row]})
    assert "| m | auto: K=2 | 1,234 | 0.25 | 0.125 ± 0.01 | 0.5 | 0.25 ± 0.01 | 90 | 45 ± 0.01 |" in text
