"""Two recommenders of video games: neural collaborative filtering, trained here.

    GMF    score(u, i) = w (p_u * q_i) + b                                           8 columns
    MLP    score(u, i) = w relu(W3 relu(W2 relu(W1 [p_u, q_i]))) + b                32 columns

Source: "Neural Collaborative Filtering" (WWW 2017), with its protocol. The last item of a user is left out of training.
It is a hit if it is among the ten best of 100 candidates. The other 99 are random items without an action of the user.
"""

from collections.abc import Iterator
from itertools import pairwise

import torch
from amazon_video.data import Histories, read, video_folder
from datasets import PADDING
from options import Options
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn
from torch.nn import functional

from tiers.case import Case, Judge

# Without the last two items, most hits of the item before the last: 95 of 100 epochs, 15 of 40, in steps of five.
_EPOCHS, _QUICK_EPOCHS = {"GMF": 95, "MLP": 15}, 1
_BATCH, _OTHERS, _RATES = 2048, 4, {"GMF": 1e-2, "MLP": 2e-3}
_CANDIDATES, _BEST = 100, 10
_WIDTHS = {"GMF": 8, "MLP": 32}


class Filter(nn.Module):
    """Score of an item for a user.

    Args:
        kind: ``GMF`` or ``MLP``.
        users: number of users.
        items: number of items.
    """

    def __init__(self, kind: str, users: int, items: int) -> None:
        super().__init__()
        width = _WIDTHS[kind]
        self.users: nn.Module = nn.Embedding(users, width)
        self.items: nn.Module = nn.Embedding(items, width)
        for table in (self.users, self.items):
            nn.init.normal_(table.get_parameter("weight"), std=0.05)
        self.is_product = kind == "GMF"
        sizes = [2 * width, width, width // 2, width // 4]
        layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        self.tower = nn.Linear(width, 1) if self.is_product else nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Return scores (*) of two tensors of integers (*)."""
        p, q = self.users(users), self.items(items)  # [*, d]
        scores: Tensor = self.tower(p * q if self.is_product else torch.cat((p, q), -1)).squeeze(-1)
        return scores


def cases(options: Options) -> Iterator[Case]:
    """Yield both recommenders."""
    with video_folder(options.data) as folder:
        histories = read(folder, least=20 if options.quick else 1)
    pairs = _pairs(histories)
    sizes = len(histories.items), histories.num_items
    counts = {name: pairs[:, at].bincount(minlength=sizes[at]) for at, name in enumerate(("users", "items"))}
    for kind in _WIDTHS:
        torch.manual_seed(options.seed)
        model = Filter(kind, *sizes)
        _train(model, pairs, kind, _QUICK_EPOCHS if options.quick else _EPOCHS[kind])
        yield Case(f"NCF {kind}", model.eval(), counts, judge_of(histories), True, is_trained=True)


def _pairs(histories: Histories) -> Tensor:
    """Return user and item of each action in training, [m, 2]."""
    items = histories.items[:, :-1]
    users = torch.arange(len(items))[:, None].expand_as(items)
    known = items != PADDING
    return torch.stack((users[known], items[known]), 1)


def _train(model: Filter, pairs: Tensor, kind: str, epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), _RATES[kind])
    num_items = len(model.items.get_parameter("weight"))
    for _ in track(range(epochs), kind, console=Console(stderr=True)):
        for batch in torch.randperm(len(pairs)).split(_BATCH):
            users, items = pairs[batch].T[:, :, None]  # [batch, 1] each
            others = torch.randint(1, num_items, (len(batch), _OTHERS))
            scores = model(users.expand(-1, 1 + _OTHERS), torch.cat((items, others), 1))
            expected = torch.zeros_like(scores)
            expected[:, 0] = 1
            loss = functional.binary_cross_entropy_with_logits(scores, expected)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def judge_of(histories: Histories) -> Judge:
    """Return a function that measures the share of users whose last item is among the ten best of 100."""
    users, last = torch.arange(len(histories.items))[:, None], histories.items[:, -1:]
    candidates = torch.cat((last, _others(histories)), 1)  # [users, 100]

    def judge(tried: nn.Module) -> dict[str, float]:
        scores = tried(users.expand_as(candidates), candidates)
        better = (scores[:, 1:] >= scores[:, :1]).sum(1)  # an equal score is no hit
        return {"hits in 10": float((better < _BEST).double().mean())}

    return judge


def _others(histories: Histories) -> Tensor:
    """Draw 99 items of no action of each user, [users, 99]."""
    drawn = torch.Generator().manual_seed(0)
    others = torch.randint(1, histories.num_items, (len(histories.items), _CANDIDATES - 1), generator=drawn)
    while (seen := (others[:, :, None] == histories.items[:, None, :]).any(2)).any():
        others[seen] = torch.randint(1, histories.num_items, (int(seen.sum()),), generator=drawn)
    return others
