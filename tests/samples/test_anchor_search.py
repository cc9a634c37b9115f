"""nbANT in one run against a sweep over the number of anchors, compared by eq. (34)."""

import json
from pathlib import Path

import anchor_search
import pytest
import torch
from click.testing import CliRunner

pytest.importorskip("sklearn", reason="the digits are scikit-learn's")


@pytest.mark.slow
@pytest.mark.long  # 12 or 13 runs of 3,000 steps
@pytest.mark.parametrize("case", anchor_search.CASES.values(), ids=anchor_search.CASES)
def test_search_ends_within_5_percent_of_best_of_sweep(case):
    """The search begins below and above the best number, and training lowers the objective in the first epochs.

    Every run with initial anchors above zero ends that near; most runs with anchors around zero do.
    """
    sweep = [anchor_search.searched(case, size, 0, None, above_zero=False)[-1].objective for size in case.sizes]
    assert min(sweep[0], sweep[-1]) > 1.15 * min(sweep)  # the number of anchors matters
    above, around = (
        [
            anchor_search.searched(case, start, seed, "sizes", above_zero=above_zero)[-1].objective / min(sweep)
            for start, seed in ((1, 0), (10, 0), (10, 1))
        ]
        for above_zero in (True, False)
    )
    assert max(above) < 1.05, above
    assert sorted(around)[1] < 1.05, around
    assert max(around) < 1.2, around


@pytest.mark.slow
def test_command_compares_both_trends_with_the_sweep(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(anchor_search, "_STEPS", 2)
    threads = torch.get_num_threads()
    done = CliRunner().invoke(anchor_search.main, ["--seeds", "2", "--quick", "--output", str(tmp_path)])
    torch.set_num_threads(threads)
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["trend"], row["start"]) for row in rows] == 2 * [
        ("sweep", None), ("sizes", 1), ("sizes", 10), ("epochs", 1), ("epochs", 10)
    ]  # fmt: skip
    assert all(len(row["anchors"]) == 2 for row in rows)
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert f"| digits | epochs | 10 | {rows[-1]['objective']['mean']:.4g} ±" in text
