"""`AnchorSearch` selects the number of anchors while an ANT table is trained (nbANT).

    loss + lambda_2 |T|_0 + (lambda_1 - lambda_2) K          (eq. 34; |T|_0 nonzeros, K anchors)

The search adds anchors as long as the objective falls. It removes the last anchors again when the objective rises.

Source: "Anchor & Transform: Learning Sparse Embeddings for Large Vocabularies" (ICLR 2021), Algorithm 2 and appendix
J.4, where all tables change together. The paper leaves the trend of eq. (34) undefined. By default this search compares
the objective before and after the last change of K. The authors' released code takes the trend over epochs
(``trend="epochs"``), which hardly depends on K: training alone lowers eq. (34), and so does a removal.
`samples/anchor_search.py` compares both.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from edge_embed.errors import BadInputError, one_line
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.anchor_columns import AnchorColumns, table_state
from edge_embed.layers.arguments import checked_count, is_number
from edge_embed.layers.proximal import ProximalOptimizer, check_proximal, checked_penalty

Trend = Literal["sizes", "epochs"]


@dataclass(frozen=True)
class SearchStep:
    """Record of one call of `AnchorSearch.step`.

    Attributes:
        loss: the loss given to the call.
        num_nonzeros: entries above 0 in all transforms.
        num_anchors: K of each table.
        objective: eq. (34).
    """

    loss: float
    num_nonzeros: int
    num_anchors: tuple[int, ...]
    objective: float


@suggests_keywords
class AnchorSearch:
    """Search for the number of anchors of every table of a `ProximalOptimizer`. All tables change by the same number.

    ::

        search = edge_embed.AnchorSearch(optimizer, anchor_penalty=0.01)
        for epoch in range(50):
            ...  # train as before
            search.step(loss_on_validation_data)

    Each size gets two calls of `step`. The second objective is compared with the last one before the change.
    A size that is better than its neighbours on both sides stays until the objective rises above one of theirs, or
    until half of all calls were at this size. Long epochs make the search more reliable: a new anchor needs some
    training before it lowers the loss.

    The objective depends on the penalty, so begin the search when the penalty has settled. To train on a stream (online
    nbANT), train on one part of it until the loss no longer falls. Then call ``step`` with that loss and go on to the
    next part.

    The search ends more reliably if all anchors begin above zero, as in the authors' code:
    ``layer.start_from(vectors=layer.anchors.detach().abs())``. With this start, the worst of 16 searches on synthetic
    rows ended 3.7 % above the best of a sweep. With the default start of `edge_embed.ANTEmbedding` the worst ended
    16 % above it and the second worst 4.6 %. On pixels of digits all searches ended within 2 %.

    Removed anchors are kept with their columns of the transform and their optimiser state, and are restored unchanged.
    New anchors begin above zero. A change creates new parameters, which replace the old ones in the optimiser:

    - Call ``step`` after ``optimizer.step()``.
    - Call ``model.parameters()`` again where you keep the parameters.
    - Wrap the model in ``DistributedDataParallel`` again. Every process must give the same loss.

    A table whose transform or anchors have ``requires_grad`` false keeps its anchors, and so does an
    `edge_embed.ANTMixtureEmbedding`.

    `edge_embed.study.plot.draw_search` draws the history. A checkpoint also needs ``search.state_dict()``. Load it
    before the model and the optimiser, because it restores the sizes of the tables.

    Args:
        optimizer: optimiser of the tables; its penalty is lambda_2.
        anchor_penalty: lambda_1, above lambda_2; a larger value selects fewer anchors.
        change: Delta K, the number of anchors added or removed at a time.
        most: maximum number of anchors of a table.
        trend: objectives that are compared. ``"sizes"``: those of the present and the last number of anchors, as above.
            ``"epochs"``: those of the last two calls, literally as in Algorithm 2. A fall then adds anchors, a rise
            removes some, and each call is an epoch.

    Raises:
        BadInputError: if a number is outside its range, no table is trainable, ``optimizer`` has no penalty, or it
            wraps L-BFGS or Adafactor, whose state has no entry for each number.
    """

    def __init__(
        self,
        optimizer: ProximalOptimizer,
        anchor_penalty: float,
        change: int = 1,
        most: int = 100,
        trend: Trend = "sizes",
    ) -> None:
        check_proximal(optimizer)
        if trend not in get_args(Trend):
            raise BadInputError(f'trend must be "sizes" or "epochs", got {trend!r:.80}')
        for name, number in (("change", change), ("most", most)):
            checked_count(name, number)
        if isinstance(optimizer.optimizer, (torch.optim.LBFGS, torch.optim.Adafactor)):
            got = f"got {type(optimizer.optimizer).__name__}, whose state has no entry for each number"
            raise BadInputError(f"optimizer: {got}; use edge_embed.Yogi or Adam")
        self.optimizer, self.anchor_penalty = optimizer, checked_penalty(anchor_penalty, "anchor_penalty")
        self._check_penalty()
        self.change, self.most, self.trend = change, most, trend
        self.history: list[SearchStep] = []
        self._tables = [AnchorColumns(layer, optimizer.optimizer) for layer in optimizer.layers]
        for table in self._tables:
            self._check_count(table, table.layer.num_anchors)
        if not any(table.learns for table in self._tables):
            got = "got no table with trainable transform and anchors (mixtures keep their anchors)"
            raise BadInputError(f"optimizer: {got}; set requires_grad of both, or do not search")

    @torch.no_grad()
    def step(self, loss: float | Tensor) -> bool:
        """Record eq. (34) for this loss, and add or remove anchors by its trend.

        Args:
            loss: mean loss over validation samples, or over training samples.

        Returns:
            Whether a table has changed its size.

        Raises:
            BadInputError: if the loss is not a finite number, a table is frozen, or the penalty of the optimiser is no
                longer below ``anchor_penalty``.
        """
        self.history.append(self._seen(_checked_loss(loss)))
        if self.trend == "epochs":
            return self._resize(_way_of_epochs(self.history))
        way = _way(self.history)
        return self._resize(way) or (_is_half(self.history) and self._resize(-way))

    def _resize(self, way: int) -> bool:
        """Add anchors to trainable tables or remove some. Return whether a table has changed its size."""
        learning = [(table, table.layer.num_anchors + way * self.change) for table in self._tables if table.learns]
        changed = [table.resize(min(max(count, 1), self.most)) for table, count in learning]
        return any(changed)

    def state_dict(self) -> dict[str, Any]:
        """Return the history and the removed anchors."""
        history = [{**asdict(one), "num_anchors": list(one.num_anchors)} for one in self.history]
        return {"history": history, "tables": [table.state_dict() for table in self._tables]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the history and the sizes of the tables. Load the model and the optimiser after this.

        Raises:
            BadInputError: if the state has another number of tables, more than ``most`` anchors or none, or is not the
                state of a search; the search is then unchanged.
        """
        try:
            history = [SearchStep(**{**one, "num_anchors": tuple(one["num_anchors"])}) for one in state_dict["history"]]
            states = [table_state(state) for state in state_dict["tables"]]
        except (KeyError, TypeError, ValueError) as error:
            got = f"got the state of another object ({one_line(error)})"
            raise BadInputError(f"state_dict: {got}, expected the result of AnchorSearch.state_dict()") from None
        if len(states) != len(self._tables):
            raise BadInputError(f"state_dict: got {len(states)} tables, expected {len(self._tables)}")
        for table, state in zip(self._tables, states, strict=True):
            self._check_count(table, state["num_anchors"])
        self.history = history
        for table, state in zip(self._tables, states, strict=True):
            table.load_state_dict(state)

    def _check_count(self, table: AnchorColumns, count: int) -> None:
        checked_count("num_anchors", count)
        if table.learns and count > self.most:
            raise BadInputError(f"most must be at least the {count} anchors that a table has, got {self.most}")

    def _seen(self, loss: float) -> SearchStep:
        if any(table.layer.frozen for table in self._tables):
            raise BadInputError("got a frozen table, expected trainable ones; search before freezing")
        self._check_penalty()
        nonzeros = sum(int((table.layer.transform > 0).sum()) for table in self._tables)
        counts = tuple(table.layer.num_anchors for table in self._tables)
        penalty = self.optimizer.penalty
        objective = loss + penalty * nonzeros + (self.anchor_penalty - penalty) * sum(counts)
        return SearchStep(loss, nonzeros, counts, objective)

    def _check_penalty(self) -> None:
        """Raise unless lambda_1 > lambda_2: the derivation of eq. (34) requires it, as anchors would cost nothing."""
        if self.anchor_penalty <= self.optimizer.penalty:
            expected = f"expected more than the penalty of the optimiser, {self.optimizer.penalty}"
            raise BadInputError(f"anchor_penalty: got {self.anchor_penalty}, {expected}")


def _checked_loss(loss: float | Tensor) -> float:
    value: object = loss.item() if isinstance(loss, Tensor) and loss.numel() == 1 else loss
    if not is_number(value) or not math.isfinite(value):
        raise BadInputError(f"the loss must be a finite number, got {value!r:.80}")
    return float(value)


def _way_of_epochs(history: Sequence[SearchStep]) -> int:
    """Return 1 for more anchors if eq. (34) fell in the last epoch, -1 for fewer if it rose, and 0 to stay."""
    before, now = history[-2:][0].objective, history[-1].objective
    return (now < before) - (now > before)


def _way(history: Sequence[SearchStep]) -> int:
    """Return the direction in which eq. (34) falls with the number of anchors: as `_way_of_epochs`."""
    sizes = [(size, [one.objective for one in run]) for size, run in groupby(history, lambda one: one.num_anchors)]
    if len(sizes) == 1:
        return 1
    (before, old), (now, new) = sizes[-2:]
    if len(new) == 1:
        return 0
    way = 1 if now > before else -1
    if new[-1] >= old[-1]:
        return -way
    if len(sizes) > 4:  # both neighbours were tried: stay if neither was better
        (here, _), (side, tried), (again, _) = sizes[-5:-2]
        if here == again == now and side != before and tried[-1] > new[-1] and not _is_half(history):
            return 0
    return way


def _is_half(history: Sequence[SearchStep]) -> bool:
    """Return whether half of all steps were at the present size: then the search tries its neighbours again."""
    last = next(groupby(reversed(history), lambda one: one.num_anchors))[1]
    return 2 * sum(1 for _ in last) >= len(history)
