"""The sample of fine-tuning: its figures, and what its steps change."""

from collections.abc import Iterator

import fine_tune
import pytest
import torch
from results import before_and_after
from tables import MakeTable
from torch import Tensor, nn
from torch.nn import functional
from training import Batch, Part, Task

WORDS = 50


class Model(nn.Module):
    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table, self.classes = table, nn.Linear(8, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.classes(self.table(ids))
        return logits


class Successors(Task[Model]):
    """Prediction of a number from the one before it."""

    metric = "accuracy"

    def model(self, table: MakeTable) -> Model:
        return Model(table(WORDS))

    def batches(self) -> Iterator[Batch]:
        for ids in torch.randint(WORDS, (20, 64)):
            yield (ids,)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return functional.cross_entropy(model(batch[0]), (batch[0] * 7 + 1) % WORDS)

    def score(self, model: nn.Module, part: Part) -> float:
        ids = self.example()
        return float((model(ids).argmax(-1) == (ids * 7 + 1) % WORDS).float().mean())

    def example(self) -> Tensor:
        return torch.arange(WORDS)


@pytest.fixture
def case() -> fine_tune.Case:
    torch.manual_seed(0)
    task = Successors()
    return fine_tune.Case("numbers", task, task.example()[None], task.model(lambda rows: nn.Embedding(rows, 8)), 2)


def test_figures_of_the_dense_model_are_those_of_no_change(case: fine_tune.Case) -> None:
    figures = case.figures(case.dense)
    assert figures["KL"] == pytest.approx(0, abs=1e-9)
    assert figures["top-1"] == 1
    assert figures["score"] == case.task.score(case.dense, "test")


def test_copy_of_a_compressed_model_is_trained(case: fine_tune.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fine_tune, "_RATE", 0.03)
    small, setting = case.compressed("tiered")
    assert setting
    before = {name: value.clone() for name, value in small.state_dict().items()}
    tuned = case.tuned(small, seed=0)
    batch = (case.task.example(),)
    assert case.task.loss(tuned, batch) < 0.9 * case.task.loss(small, batch)
    assert all(torch.equal(value, before[name]) for name, value in small.state_dict().items())


def test_rows_of_the_report_have_each_method(case: fine_tune.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fine_tune, "_METHODS", ("dense", "tiered"))
    monkeypatch.setattr(fine_tune, "_EPOCHS", 1)
    dense, tiered = fine_tune._measured(case, seeds=2)
    assert (dense["method"], dense["bytes"], dense["before"]["KL"]) == ("dense", 4 * WORDS * 8, 0)
    assert tiered["method"].startswith("tiered: ")
    assert tiered["bytes"] <= dense["bytes"] / 2
    assert tiered["after"].keys() == {"score", "KL", "top-1"}


def test_report_shows_figures_before_and_after() -> None:
    figures = {"score": 0.25, "KL": 0.5}
    after = {name: {"mean": value / 2, "half": 0.01} for name, value in figures.items()}
    rows = [{"model": "m", "method": "tt: R=2", "bytes": 1234, "before": figures, "after": after}]
    text = before_and_after(rows, list(figures), "fine-tuned")
    assert "| model | method | bytes | score | score, fine-tuned | KL | KL, fine-tuned |" in text
    assert "| m | tt: R=2 | 1,234 | 0.25 | 0.125 ± 0.01 | 0.5 | 0.25 ± 0.01 |" in text
