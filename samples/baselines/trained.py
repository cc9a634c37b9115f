"""Tables of other forms, trained in place of a dense one.

    low rank              E_i = A_i B                         A [n, R], B [R, d]
    hashing               E_i = H_h(i)                        H [m, d], h(i) = (i * prime mod 2^32) mod m
    quotient-remainder    E_i = Q_(i div m) * R_(i mod m)     Q [n / m, d], R [m, d]
    frequent rows         E_i = F_min(i, m)                   F [m + 1, d]; ids are sorted by frequency
    mixed widths          E_i = M_i P_b(i)                    M_i [d / 2^b], P_b [d / 2^b, d]; m 4^b rows in block b

Row 0 is padding and zero. All numbers are float32. Sources: Weinberger and others, "Feature Hashing for Large Scale
Multitask Learning" (2009); Shi and others, "Compositional Embeddings Using Complementary Partitions" (2020); Ginart and
others, "Mixed Dimension Embeddings with Application to Memory-Efficient Recommendation Systems" (2019).
"""

from typing import Literal

import torch
from datasets import PADDING
from torch import Tensor, nn
from torch.nn import functional

_STD = 0.1  # of initial rows, as of small dense ones
PRIME = 2_654_435_761  # Knuth's multiplier spreads neighbouring ids

Mode = Literal["rows", "mean"]


class OtherTable(nn.Module):
    """A table that is computed from fewer numbers.

    Args:
        rows: rows n.
        width: columns d.
        size: number that determines the bytes: a rank, or a number of stored rows.
        mode: ``"rows"`` for looked-up rows, ``"mean"`` for the mean of the rows of a text, without padding.

    Shape:
        ids [*] -> [*, d]; with ``"mean"`` ids [batch, words] -> [batch, d].
    """

    def __init__(self, rows: int, width: int, size: int, mode: Mode = "rows") -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.size, self.mode = rows, width, size, mode

    @property
    def numbers(self) -> int:
        """Return the numbers that are stored."""
        return sum(parameter.numel() for parameter in self.parameters())

    def looked_up(self, ids: Tensor) -> Tensor:
        """Return rows [*, d] of ids [*], for padding as for other ids."""
        raise NotImplementedError

    def rows(self, ids: Tensor) -> Tensor:
        """Return rows [*, d] of ids [*]."""
        return self.looked_up(ids) * (ids != PADDING).unsqueeze(-1)

    def forward(self, ids: Tensor) -> Tensor:
        """Return rows, or their means."""
        found = self.rows(ids)
        if self.mode == "rows":
            return found
        return found.sum(1) / (ids != PADDING).sum(1, keepdim=True).clamp(min=1)


class OtherOutput(nn.Module):
    """Logits over the rows of a table that is trained elsewhere too.

    Args:
        table: its rows.
        bias: whether to train a number for each row as well.
    """

    def __init__(self, table: OtherTable, bias: bool) -> None:
        super().__init__()
        self.table = table
        self.bias = nn.Parameter(torch.zeros(table.num_embeddings)) if bias else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits [*, n] of hidden states [*, d]."""
        ids = torch.arange(self.table.num_embeddings, device=hidden.device)
        return functional.linear(hidden, self.table.rows(ids), self.bias)


class LowRank(OtherTable):
    """Rows of a rank, trained as two factors."""

    def __init__(self, rows: int, width: int, size: int, mode: Mode = "rows") -> None:
        super().__init__(rows, width, size, mode)
        self.left, self.right = _small(rows, size), nn.Parameter(torch.empty(size, width))
        nn.init.orthogonal_(self.right, (width / size) ** 0.5)

    def looked_up(self, ids: Tensor) -> Tensor:
        """Return A_i B."""
        return functional.embedding(ids, self.left) @ self.right


class Hashed(OtherTable):
    """Rows of buckets, which ids share by chance."""

    def __init__(self, rows: int, width: int, size: int, mode: Mode = "rows") -> None:
        super().__init__(rows, width, size, mode)
        self.buckets = _small(size, width)

    def looked_up(self, ids: Tensor) -> Tensor:
        """Return H_h(i)."""
        return functional.embedding(ids * PRIME % 2**32 % self.size, self.buckets)


class QuotientRemainder(OtherTable):
    """Products of a row for the quotient of an id and one for its remainder."""

    def __init__(self, rows: int, width: int, size: int, mode: Mode = "rows") -> None:
        super().__init__(rows, width, size, mode)
        self.quotients = nn.Parameter(torch.ones(-(-rows // size), width))
        self.remainders = _small(size, width)

    def looked_up(self, ids: Tensor) -> Tensor:
        """Return Q_(i div m) * R_(i mod m)."""
        quotients = functional.embedding(ids // self.size, self.quotients)
        return quotients * functional.embedding(ids % self.size, self.remainders)


class Frequent(OtherTable):
    """Rows of the frequent ids, and one row that all others share."""

    def __init__(self, rows: int, width: int, size: int, mode: Mode = "rows") -> None:
        super().__init__(rows, width, size, mode)
        self.kept = _small(size + 1, width)

    def looked_up(self, ids: Tensor) -> Tensor:
        """Return F_min(i, m)."""
        return functional.embedding(ids.clamp(max=self.size), self.kept)


class MixedWidths(OtherTable):
    """Rows of blocks: the rarer its ids, the fewer numbers a row has, from which a matrix computes d."""

    def __init__(self, rows: int, width: int, size: int, mode: Mode = "rows") -> None:
        super().__init__(rows, width, size, mode)
        self.kept, self.wider = nn.ParameterList(), nn.ParameterList()
        begin = block = 0
        while begin < rows:
            narrow = max(1, width >> block)
            self.kept.append(_small(min(size * 4**block, rows - begin), narrow))
            self.wider.append(nn.init.orthogonal_(nn.Parameter(torch.empty(narrow, width)), (width / narrow) ** 0.5))
            begin, block = begin + len(self.kept[-1]), block + 1

    def looked_up(self, ids: Tensor) -> Tensor:
        """Return M_i P_b(i)."""
        found = torch.zeros(*ids.shape, self.embedding_dim)
        begin = 0
        for kept, wider in zip(self.kept, self.wider, strict=True):
            own = (ids >= begin) & (ids < begin + len(kept))
            found = found.masked_scatter(own.unsqueeze(-1), functional.embedding(ids[own] - begin, kept) @ wider)
            begin += len(kept)
        return found


def _small(rows: int, width: int) -> nn.Parameter:
    return nn.Parameter(_STD * torch.randn(rows, width))
