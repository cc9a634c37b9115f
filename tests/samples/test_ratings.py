"""Ratings of users: layouts, made-up values of actions, and the search of nbANT during training."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from amazon_video.actions import ratings
from methods import ant, dense
from options import Options
from ratings.claims import CANDIDATES, make_task
from ratings.data import Ratings, read
from ratings.task import RatingTask
from tables import tables
from training import Recipe, evaluate, train

import edge_embed

USERS, ITEMS = 20, 15
RATED = [(f"u{at % USERS}", f"i{at * at % ITEMS}", at % 9 / 2 + 1, at) for at in range(200)]
LAYOUTS = {
    "ratings.dat": "\n".join(f"{user}::{item}::{value}::{time}" for user, item, value, time in RATED),
    "ratings.csv": "userId,movieId,rating,timestamp\n" + "\n".join(",".join(map(str, row)) for row in RATED),
    "reviews.json": "\n".join(
        json.dumps({"reviewerID": user, "asin": item, "overall": value, "unixReviewTime": time})
        for user, item, value, time in RATED
    ),
    "reviews.jsonl": "\n".join(
        json.dumps({"user_id": user, "parent_asin": item, "rating": value, "timestamp": time})
        for user, item, value, time in RATED
    ),
}


def counted(parts: Any) -> list[tuple[int, int, float]]:
    """Return all ratings of the parts, sorted."""
    return sorted(
        row
        for part in parts
        for row in zip(part.users.tolist(), part.items.tolist(), part.values.tolist(), strict=True)
    )


@pytest.mark.parametrize("name", LAYOUTS)
def test_ratings_of_each_layout_are_the_same(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(LAYOUTS[name], encoding="utf-8")
    *parts, rows = read(tmp_path)
    assert [len(part) for part in parts] == [160, 20, 20]
    assert rows == (USERS + 1, 1 + len({item for _, item, *_ in RATED}))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "ratings.dat").write_text(LAYOUTS["ratings.dat"], encoding="utf-8")
    assert counted(parts) == counted(read(tmp_path / "other")[:3])
    assert sorted(value for *_, value in counted(parts)) == sorted(value for _, _, value, _ in RATED)


def test_ratings_number_frequent_items_first(tmp_path: Path) -> None:
    (tmp_path / "ratings.dat").write_text(LAYOUTS["ratings.dat"], encoding="utf-8")
    *parts, (_, items) = read(tmp_path)
    counts = torch.cat([part.items for part in parts]).bincount(minlength=items)
    assert counts[0] == 0
    assert (counts[1:].diff() <= 0).all()


def test_actions_without_ratings_are_1_beside_as_many_0(tmp_path: Path) -> None:
    taken = [(at % USERS + 1, at % 7 + 1) for at in range(100)]
    (tmp_path / "Video.txt").write_text("".join(f"{user} {item}\n" for user, item in taken), encoding="ascii")
    *parts, _ = read(tmp_path)
    values = torch.cat([part.values for part in parts])
    users = torch.cat([part.users for part in parts])
    items = torch.cat([part.items for part in parts])
    assert values.mean() == 0.5
    for column in (users, items):  # both kinds have each user and each item equally often
        assert torch.equal(column[values == 1].bincount(), column[values == 0].bincount())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("reviews.json", LAYOUTS["reviews.json"].replace("overall", "other", 1), "without a rating, expected the key"),
        ("ratings.dat", "u::i::good::1", "line 1: got 'u::i::good::1', expected user::item::rating::time"),
        ("ratings.dat", "u::i::nan::1", "line 1: got 'u::i::nan::1', expected user::item::rating::time"),
        ("ratings.dat", "u::i::1e300::1", "line 1: got 'u::i::1e300::1', expected user::item::rating::time"),
        ("ratings.dat", "u::i::5::1\nu::i::4::2", "got 2 ratings, expected 10 or more"),
    ],
)
def test_ratings_of_another_form_are_named(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(click.ClickException, match=message):
        read(tmp_path)


def test_ratings_of_actions_are_none(tmp_path: Path) -> None:
    (tmp_path / "Video.txt").write_text("1 2\n", encoding="ascii")
    assert ratings(tmp_path) == []


@pytest.fixture
def task() -> RatingTask:
    """Return ratings that are sums of products of three numbers of a user and of an item."""
    generator = torch.Generator().manual_seed(0)
    user, item = (torch.randn(rows, 3, generator=generator) for rows in (USERS, ITEMS))
    values = (user @ item.T).flatten()
    users, items = torch.cartesian_prod(torch.arange(USERS), torch.arange(ITEMS)).T
    whole = Ratings(users + 1, items + 1, values)
    training = Ratings(*(column.repeat(40) for column in (whole.users, whole.items, whole.values)))
    return RatingTask(training, whole[::5], whole[1::5], (USERS + 1, ITEMS + 1))


def test_factors_begin_at_the_mean_and_learn(task: RatingTask) -> None:
    torch.manual_seed(0)
    model = task.model(lambda rows: torch.nn.Embedding.from_pretrained(torch.zeros(rows, 4)))
    values = task.test.values
    assert evaluate(task, model, "test") == pytest.approx(float((values - task.training.values.mean()).square().mean()))
    model = train(task, Recipe(dense(4), 20, 1, 3e-2), "dense", 20)
    assert evaluate(task, model, "test") < 0.02 * float(values.var())


def test_search_changes_the_number_of_anchors_and_keeps_the_best_epoch(task: RatingTask) -> None:
    torch.manual_seed(0)
    recipe = Recipe(ant(4, 1), 16, 1, 3e-2, penalty=1e-4, anchor_penalty=1e-3)
    sizes, scores = [], []

    def watch(model: torch.nn.Module) -> None:
        found = [layer.num_anchors for layer in tables(model)]
        if not sizes or sizes[-1] != found:
            sizes.append(found)

    observed = task.score

    def score(model: Any, part: Any) -> float:
        scores.append(observed(model, part))
        return scores[-1]

    task.score = score  # type: ignore[method-assign]
    model = train(task, recipe, "nbant", 16, watch)

    assert sizes[0] == [1, 1]
    assert max(sizes) >= [3, 3]
    assert all(isinstance(layer, edge_embed.ANTEmbedding) for layer in tables(model))
    assert observed(model, "validation") == min(scores)


def test_candidates_of_ratings_train(tmp_path: Path) -> None:
    (tmp_path / "ratings.dat").write_text(LAYOUTS["ratings.dat"], encoding="utf-8")
    task = make_task(Options(tmp_path, False, 0, tmp_path))()
    for recipes in CANDIDATES.values():
        model = recipes[0].model_of(task)
        task.loss(model, next(task.batches())).backward()
        for layer in tables(model):
            assert any(parameter.grad is not None and parameter.grad.any() for parameter in layer.parameters())
