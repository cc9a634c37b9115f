"""BERT of the samples: masked words, the tables that both phases share, and a run on a made-up set."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is missing: pip install 'edge-embed[transformers]'")

from bert.claims import CANDIDATES, make_task
from bert.model import SPECIAL, WIDTH, Classifier, MaskedWords, mask_of
from bert.task import MaskedTask, PretrainedTask, pretrained
from datasets import PADDING, UNKNOWN
from methods import dense, vq
from options import Options
from text_task import Texts
from training import Recipe, evaluate, train

import edge_embed

WORDS = 40
TABLES = {"dense": dense(WIDTH), "dpq": vq(WIDTH, 16, 32)}


def texts(count: int) -> Texts:
    generator = torch.Generator().manual_seed(count)
    ids = torch.randint(UNKNOWN, WORDS, (count, 30), generator=generator)
    lengths = torch.randint(1, 31, (count, 1), generator=generator)
    return Texts(ids.masked_fill(torch.arange(30) >= lengths, PADDING), ids[:, 0] % 3)


@pytest.fixture
def masked() -> MaskedTask:
    torch.manual_seed(0)
    return MaskedTask(WORDS, texts(2_000), texts(50), texts(60))


def test_masked_words_are_15_of_100_and_neither_padding_nor_unknown(masked: MaskedTask) -> None:
    words, drawn = 0, 0
    for ids, predicted in masked.batches():
        assert (ids[predicted] > UNKNOWN).all()
        words += int((ids > UNKNOWN).sum())
        drawn += int(predicted.sum())
    assert drawn / words == pytest.approx(0.15, abs=0.01)


def test_masked_words_are_hidden_in_8_of_10_cases_and_others_in_1(masked: MaskedTask) -> None:
    model = masked.model(TABLES["dense"])
    ids = torch.full((2_000, 20), WORDS - 1)
    predicted = torch.rand(ids.shape) < 0.5
    hidden = masked._hidden(model, ids, predicted, None)

    assert torch.equal(hidden[~predicted], ids[~predicted])
    found = hidden[predicted]
    assert (found == mask_of(model.table)).float().mean() == pytest.approx(0.8, abs=0.01)
    others = found[(found != mask_of(model.table)) & (found != WORDS - 1)]
    assert len(others) / len(found) == pytest.approx(0.1 * (1 - 1 / (WORDS - 2)), abs=0.01)
    assert others.min() > UNKNOWN
    assert others.max() < WORDS


def test_masked_words_score_is_the_same_at_each_call(masked: MaskedTask) -> None:
    model = masked.model(TABLES["dense"])
    first = evaluate(masked, model, "test")
    torch.manual_seed(5)
    assert evaluate(masked, model, "test") == first
    assert 1 < first < 100  # even scores of 42 rows have 42


@pytest.mark.parametrize("name", TABLES)
def test_masked_words_model_has_one_table_for_input_and_output(name: str) -> None:
    model = MaskedWords(TABLES[name](WORDS + SPECIAL))
    inner = model.bert
    assert inner.get_input_embeddings() is model.table
    if name == "dense":
        assert inner.get_output_embeddings().weight is model.table.weight
    else:
        assert isinstance(inner.get_output_embeddings(), edge_embed.TiedOutput)
        assert inner.get_output_embeddings().embedding is model.table


def test_masked_words_logits_are_those_of_masked_places() -> None:
    model = MaskedWords(TABLES["dense"](WORDS + SPECIAL)).eval()
    ids, places = texts(6).ids, torch.zeros(6, 30, dtype=torch.bool)
    places[2, 4] = places[5, 0] = True
    with torch.no_grad():
        both = model(ids, places)
        changed = ids.clone()
        changed[2] = PADDING  # the other text does not see it
        changed[2, :5] = 3
        other = model(changed, places)
    assert both.shape == (2, WORDS + SPECIAL)
    torch.testing.assert_close(other[1], both[1])
    assert not torch.allclose(other[0], both[0])


def test_classifier_reads_no_padding() -> None:
    model = Classifier(TABLES["dense"](WORDS + SPECIAL), 3).eval()
    ids = texts(8).ids
    longer = torch.nn.functional.pad(ids, (0, 7), value=PADDING)
    with torch.no_grad():
        torch.testing.assert_close(model(longer), model(ids))


@pytest.mark.parametrize("name", TABLES)
def test_pretrained_model_keeps_table_and_encoder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MaskedWords] = []

    def kept(*given: Any) -> MaskedWords:
        made.append(train(*given))
        return made[0]

    monkeypatch.setattr("bert.task.train", kept)
    torch.manual_seed(0)
    task = PretrainedTask({str(at): at for at in range(WORDS)}, texts(100), texts(40), 20)
    recipe = pretrained(Recipe(TABLES[name], 1, 1, 1e-3))
    assert recipe.begin is not None

    model = recipe.begin(task, 1)

    assert model.table is made[0].table
    assert model.bert.get_input_embeddings() is model.table
    encoder, first = model.bert.bert.encoder.state_dict(), made[0].bert.bert.encoder.state_dict()
    assert encoder.keys() == first.keys()
    assert all(torch.equal(encoder[key], first[key]) for key in first)
    assert task.further(model)[MaskedTask.metric] == pytest.approx(
        evaluate(MaskedTask(WORDS, task.training, task.validation, task.test), made[0], "test"), rel=1e-6
    )


def test_task_reads_a_set_in_its_public_layout(tmp_path: Path) -> None:
    draw = random.Random(0)
    rows = [
        f'{label + 1},"{" ".join(draw.choices("abcd", k=70))} {"xy"[label]}"\n'
        for label in (0, 1)
        for _ in range(1_200)
    ]
    (tmp_path / "train.csv").write_text("".join(rows), encoding="utf-8")
    (tmp_path / "test.csv").write_text("".join(rows[:40]), encoding="utf-8")
    task = make_task(Options(tmp_path, False, 0, tmp_path))()
    assert task.training.ids.shape == (400, 71)
    for recipes in CANDIDATES.values():
        model = recipes[0].model_of(task)
        task.loss(model, next(iter(task.batches()))).backward()
        assert any(parameter.grad is not None and parameter.grad.any() for parameter in model.table.parameters())
