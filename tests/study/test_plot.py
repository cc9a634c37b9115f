"""Plots of the study of training: whole files or none, and equal bytes for equal numbers."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from edge_embed.errors import BadInputError
from edge_embed.layers.anchor_search import SearchStep
from edge_embed.study import plot
from edge_embed.study.plot import draw_changes, draw_search, draw_usage

USAGE = {"SX": np.arange(12).reshape(3, 4), "VQ": np.ones((2, 5))}
CHANGES = {"K = 16": [0.5, 0.25, 0.1], "K = 32": [0.6, 0.4]}
HISTORY = [SearchStep(3.0, 90, (5, 3), 11.0), SearchStep(2.0, 80, (6, 4), 12.0), SearchStep(2.5, 70, (27, 5), 13.0)]
DRAWN = [(draw_usage, USAGE, USAGE), (draw_changes, CHANGES, CHANGES), (draw_search, HISTORY, ("table 0", "table 1"))]


def texts(path: Path) -> str:
    return " ".join(element.text or "" for element in ElementTree.parse(path).iter() if element.tag.endswith("text"))


@pytest.mark.parametrize(("draw", "numbers", "titles"), DRAWN)
def test_plot_has_text_titles_and_repeatable_bytes(tmp_path, draw, numbers, titles):
    for name in ("a.svg", "b.svg"):
        draw(numbers, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert all(title in texts(tmp_path / "a.svg") for title in titles)


def test_usage_plot_has_panel_for_each_table(tmp_path):
    draw_usage(USAGE, tmp_path / "usage.svg")
    images = [e for e in ElementTree.parse(tmp_path / "usage.svg").iter() if e.tag.endswith("}image")]
    assert len(images) >= len(USAGE)


def test_changes_plot_counts_steps_between_checkpoints(tmp_path):
    draw_changes({"K = 16": [0.5, 0.4]}, tmp_path / "changes.svg", every=600)
    assert "1200" in texts(tmp_path / "changes.svg")


def test_search_plot_shows_anchors_over_steps_and_loss_over_anchors(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib draws, the extra `bench` has it")
    drawn = []
    monkeypatch.setattr(plot, "_write", lambda figure, path, force: drawn.append(figure))
    draw_search(HISTORY, tmp_path / "search.svg")
    over_time, by_number = drawn[0].axes
    assert [list(line.get_ydata()) for line in over_time.lines] == [[5, 6, 27], [3, 4, 5]]
    assert list(by_number.lines[0].get_xdata()) == [5, 6, 27]
    assert list(by_number.lines[0].get_ydata()) == [11.0, 12.0, 13.0]


@pytest.mark.parametrize(("draw", "numbers"), [drawn[:2] for drawn in DRAWN])
def test_plot_without_data_or_matplotlib_is_refused(tmp_path, monkeypatch, draw, numbers):
    target = tmp_path / "picture.svg"
    with pytest.raises(BadInputError, match="nothing to draw: got no tables"):
        draw(type(numbers)(), target)
    if draw is draw_usage:
        with pytest.raises(BadInputError, match=r"usage 'SX': got counts of shape \[4\], expected \[groups, codes\]"):
            draw({"SX": [1, 2, 3, 4]}, target)
    target.write_text("mine")
    with pytest.raises(BadInputError, match="exists"):
        draw(numbers, target)
    assert target.read_text() == "mine"
    draw(numbers, target, force=True)
    assert "svg" in target.read_text()
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        BadInputError, match=r"plots: matplotlib cannot be imported .*pip install 'edge-embed\[report\]'"
    ):
        draw(numbers, tmp_path / "other.svg")
    assert not (tmp_path / "other.svg").exists()
