"""nbANT on a stream of texts, which arrive in parts."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'edge-embed[plots]'")
pytest.importorskip("sklearn", reason="scikit-learn is missing: pip install 'edge-embed[dev]'")

import anchor_stream
from ag_news.sample import NewsTask
from click.testing import CliRunner
from text_task import Texts

WORDS, CLASSES, LENGTH = 60, 2, 6


def made(count: int, seed: int) -> Texts:
    """Return texts whose words are even in one class and odd in the other."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(CLASSES, (count,), generator=generator)
    ids = 2 * torch.randint(1, WORDS // 2, (count, LENGTH), generator=generator) + classes.unsqueeze(1)
    return Texts(ids, classes)


def news() -> NewsTask:
    return NewsTask({str(word): word for word in range(WORDS)}, made(1500, 0), made(200, 1), held_out=100)


def test_parts_of_a_stream_are_its_texts_in_order() -> None:
    torch.manual_seed(0)
    task = news()
    parts = anchor_stream.split(task, 4)
    assert [(len(part.training), len(part.validation)) for part in parts] == [(315, 35)] * 4
    for at, part in enumerate(parts):
        whole = task.training.ids[350 * at : 350 * (at + 1)].tolist()
        assert sorted(part.training.ids.tolist() + part.validation.ids.tolist()) == sorted(whole)


def test_settling_ends_when_the_loss_no_longer_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    task, losses = news(), iter([1.0, 0.6, 0.7, 0.1])
    monkeypatch.setattr(task, "batches", lambda: iter(()))
    monkeypatch.setattr(task, "loss", lambda model, batch: next(losses))
    model = torch.nn.Linear(1, 1)
    assert anchor_stream.settle(task, model, torch.optim.SGD(model.parameters())) == 0.7  # type: ignore[arg-type]


@pytest.mark.parametrize("is_searching", [True, False])
def test_search_alone_changes_the_number_of_anchors(is_searching: bool) -> None:
    torch.manual_seed(0)
    found = anchor_stream.passed(news(), 1, is_searching, 3)
    anchors = [step.num_anchors[0] for step in found.history]
    assert anchors == ([1, 2, 2] if is_searching else [1])
    assert found.accuracy > 0.9


def test_command_compares_searches_with_fixed_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchor_stream, "make_task", lambda options: news)
    threads = torch.get_num_threads()
    where: list[Any] = ["--data", str(tmp_path), "--output", str(tmp_path)]
    done = CliRunner().invoke(anchor_stream.main, [*where, "--seeds", "2", "--quick"])
    torch.set_num_threads(threads)
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["start"], row["search"]) for row in rows] == [(2, True), (2, False), (10, True), (10, False)]
    assert [len(each) for each in rows[0]["anchors"]] == [3, 3]
    assert (tmp_path / "from_2.svg").is_file()
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert f"| 10 | no | 10, 10 | {rows[3]['nonzeros']['mean']:.4g} ±" in text
