"""Recommender of films from other authors (neural collaborative filtering), loaded from a Keras file.

    score(user, item) = w relu(W3 relu(W2 relu(W1 [u, v]))) + b,    u, v: their rows

Source: "Neural Collaborative Filtering" (WWW 2017), the MLP with 8 factors, trained on MovieLens 1M.
"""

from pathlib import Path

import click
import torch
from torch import Tensor, nn

_FILE = "ml-1m_MLP_64_32_16_8_1501652038.h5"
_LAYERS = "layer1", "layer2", "layer3", "prediction"
_BEST = 10


class Recommender(nn.Module):
    """Scores of items for users.

    Args:
        users: rows of their table, [n, 32].
        items: rows of their table, [m, 32].
        tower: layers above both tables.
    """

    def __init__(self, users: Tensor, items: Tensor, tower: nn.Sequential) -> None:
        super().__init__()
        self.users: nn.Module = nn.Embedding.from_pretrained(users)
        self.items: nn.Module = nn.Embedding.from_pretrained(items)
        self.tower = tower

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Return scores (*) of two tensors of integers (*)."""
        scores: Tensor = self.tower(torch.cat((self.users(users), self.items(items)), dim=-1)).squeeze(-1)
        return scores


def load(folder: Path) -> Recommender:
    """Return the model, dense, in eval mode.

    Raises:
        click.ClickException: if h5py, which reads its file, is missing.
    """
    try:
        import h5py  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError as error:
        raise click.ClickException(f"{error}: pip install h5py") from error
    with h5py.File(folder / _FILE) as file:
        saved = {
            name: torch.from_numpy(file[f"{name.rpartition('_')[0]}/{name}"][()])
            for name in ("user_embedding_W", "item_embedding_W", *(f"{layer}_{of}" for layer in _LAYERS for of in "Wb"))
        }
    steps: list[nn.Module] = []
    for layer in _LAYERS:
        weight, bias = saved[f"{layer}_W"], saved[f"{layer}_b"]  # [in, out], [out]
        linear = nn.Linear(*weight.shape)
        linear.load_state_dict({"weight": weight.t(), "bias": bias})
        steps += [linear, nn.ReLU()]
    return Recommender(saved["user_embedding_W"], saved["item_embedding_W"], nn.Sequential(*steps[:-1])).eval()


@torch.no_grad()
def recommended(model: nn.Module, users: Tensor, num_items: int) -> Tensor:
    """Return the items with the largest scores, [users, 10]."""
    items = torch.arange(num_items)
    each = [model(user.expand(num_items), items) for user in users]
    return torch.stack(each).topk(_BEST).indices


def in_common(found: Tensor, expected: Tensor) -> float:
    """Return the share of expected ids that are found, for rows of ids [users, 10]."""
    return float((found[:, :, None] == expected[:, None, :]).any(1).float().mean())
