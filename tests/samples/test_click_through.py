"""Clicks on items: training data, test data and the score."""

import pytest
import torch

pytest.importorskip("sklearn", reason="scikit-learn, which has the AUC, is missing: pip install 'edge-embed[dev]'")

from amazon_video.data import Histories
from click_through.model import WIDTH, ClickModel
from click_through.task import ClickTask
from torch import Tensor, nn

USERS = 30
# The format of `amazon_video.data.read`: user i has from three to eight items from 10 i + 1 on.
ITEMS = torch.zeros(USERS, 22, dtype=torch.int64)
for user in range(USERS):
    ITEMS[user, 22 - (3 + user % 6) :] = torch.arange(3 + user % 6) + 10 * user + 1


@pytest.fixture
def task() -> ClickTask:
    return ClickTask(Histories(10 * USERS, ITEMS))


class Knowing(nn.Module):
    """A model that knows each user's next item and nothing else."""

    def __init__(self, right: bool) -> None:
        super().__init__()
        self.right = right

    def forward(self, users: Tensor, items: Tensor, recent: Tensor) -> Tensor:
        follows = (items == recent[:, -1] + 1).float()
        return follows if self.right else -follows


class TestClicks:
    def test_tested_items_are_not_trained_on(self, task: ClickTask) -> None:
        (batch,) = task.batches()
        _, items, recent, taken = batch
        clicks = ITEMS[:, :20]
        assert sorted(items[taken == 1].tolist()) == clicks[clicks > 0].tolist()
        assert not set(ITEMS[:, 20:].flatten().tolist()) & set(recent.flatten().tolist())

    def test_recent_items_are_those_before_click(self, task: ClickTask) -> None:
        (batch,) = task.batches()
        rows = {int(item): before.tolist() for _, item, before, taken in zip(*batch, strict=True) if taken}
        assert rows[1] == rows[51] == [0, 0, 0, 0, 0]
        assert rows[23] == [0, 0, 0, 21, 22]
        assert rows[56] == [51, 52, 53, 54, 55]

    def test_users_are_numbered_by_their_clicks_in_training(self, task: ClickTask) -> None:
        """Tiered tables take rows sorted by frequency; the last two items of a user are not in training."""
        users, _, _ = task.training
        counts = users.bincount(minlength=USERS + 1)
        assert counts[0] == 0
        assert counts[1:].tolist() == sorted((3 + user % 6 - 2 for user in range(USERS)), reverse=True)

    def test_negatives_are_items_of_other_clicks(self, task: ClickTask) -> None:
        (batch,) = task.batches()
        users, items, recent, taken = batch
        clicks, others = taken == 1, taken == 0
        assert torch.equal(users[clicks], users[others])
        assert torch.equal(recent[clicks], recent[others])
        assert sorted(items[clicks].tolist()) == sorted(items[others].tolist())
        assert float((items[clicks] != items[others]).float().mean()) > 0.8

    def test_tables_have_rows_for_all_ids(self, task: ClickTask) -> None:
        model = task.model(lambda rows: nn.Embedding(rows, WIDTH, padding_idx=0))
        (batch,) = task.batches()
        sizes = [table.num_embeddings for table in model.table.values()]
        assert sizes == [USERS + 1, 10 * USERS, 10 * USERS]
        assert all(int(ids.max()) < size for ids, size in zip(task.ids(batch), sizes, strict=True))


class TestScore:
    def test_score_of_perfect_model_is_nearly_one(self, task: ClickTask) -> None:
        for part in ("validation", "test"):
            right, wrong = (task.score(Knowing(each), part) for each in (True, False))  # type: ignore[arg-type]
            assert right == 1 - wrong
            assert right > 0.9  # sometimes the other item is the user's own

    def test_score_is_repeatable_on_test_data(self, task: ClickTask) -> None:
        model = task.model(lambda rows: nn.Embedding(rows, WIDTH)).eval()
        with torch.no_grad():
            assert task.score(model, "test") == task.score(model, "test")


class TestModel:
    def test_model_output_depends_on_every_table(self) -> None:
        torch.manual_seed(0)
        model = ClickModel(nn.ModuleDict({name: nn.Embedding(5, WIDTH) for name in ("user", "item", "recent")})).eval()
        ids = [torch.tensor([1]), torch.tensor([1]), torch.tensor([[1, 2]])]
        for at in range(3):
            other = [*ids]
            other[at] = ids[at] + 1
            assert not torch.allclose(model(*ids), model(*other))

    def test_padding_does_not_change_output(self) -> None:
        tables = nn.ModuleDict({name: nn.Embedding(5, WIDTH, padding_idx=0) for name in ("user", "item", "recent")})
        model, user = ClickModel(tables).eval(), torch.tensor([1])
        short, padded = torch.tensor([[3, 4]]), torch.tensor([[0, 0, 0, 3, 4]])
        torch.testing.assert_close(model(user, user, short), model(user, user, padded))
