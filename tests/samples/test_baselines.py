"""Baselines that are trained: rows by their formulas, sizes, and tables that begin as compressed ones."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from baselines.fine_tuned import fine_tuned
from baselines.trained import Frequent, Hashed, LowRank, MixedWidths, OtherTable, QuotientRemainder
from hypothesis import given
from hypothesis import strategies as st
from methods import dense, other, vq
from tables import MakeTable, paper_numbers, table_bytes
from tied_output import tied_output
from torch import Tensor, nn
from training import Batch, Part, Recipe, Task, train

import edge_embed


def mixed_numbers(rows: int, width: int, size: int) -> int:
    """Return the numbers of blocks of m, 4 m, 16 m rows and so on, each with a matrix of d columns."""
    found, narrow = 0, width
    while rows > 0:
        found += min(size, rows) * narrow + narrow * width
        rows, size, narrow = rows - size, 4 * size, max(1, narrow // 2)
    return found


KINDS = {
    LowRank: lambda rows, width, size: (rows + width) * size,
    Hashed: lambda rows, width, size: size * width,
    QuotientRemainder: lambda rows, width, size: (-(-rows // size) + size) * width,
    Frequent: lambda rows, width, size: (size + 1) * width,
    MixedWidths: mixed_numbers,
}


@given(
    kind=st.sampled_from(list(KINDS)),
    rows=st.integers(2, 60),
    width=st.integers(1, 9),
    size=st.integers(1, 20),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
def test_rows_have_shapes_sizes_and_zero_padding(
    kind: type[OtherTable], rows: int, width: int, size: int, shape: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    table = other(kind, width, size)(rows)
    ids = torch.randint(rows, shape)
    found = table(ids)
    assert found.shape == (*shape, width)
    assert (found[ids == 0] == 0).all()
    numbers = KINDS[kind](rows, width, size)
    assert (table_bytes(table), paper_numbers(table)) == (4 * numbers, numbers)
    torch.testing.assert_close(found, table(torch.arange(rows))[ids])


def test_rows_are_those_of_their_formulas() -> None:
    ids = torch.arange(1, 10)
    low, hashed, quotient, frequent, mixed = (other(kind, 3, 4)(10) for kind in KINDS)
    torch.testing.assert_close(low(ids), low.left[1:] @ low.right)
    buckets = [number * 2_654_435_761 % 2**32 % 4 for number in range(1, 10)]
    torch.testing.assert_close(hashed(ids), hashed.buckets[buckets])
    expected = quotient.quotients[[0, 0, 0, 1, 1, 1, 1, 2, 2]] * quotient.remainders[[1, 2, 3, 0, 1, 2, 3, 0, 1]]
    torch.testing.assert_close(quotient(ids), expected)
    torch.testing.assert_close(frequent(ids), frequent.kept[[1, 2, 3, 4, 4, 4, 4, 4, 4]])
    blocks = [kept @ wider for kept, wider in zip(mixed.kept, mixed.wider, strict=True)]
    assert [tuple(kept.shape) for kept in mixed.kept] == [(4, 3), (6, 1)]
    torch.testing.assert_close(mixed(ids), torch.cat(blocks)[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_means_leave_padding_out(kind: type[OtherTable]) -> None:
    torch.manual_seed(0)
    ids = torch.tensor([[3, 1, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]])
    table = kind(5, 3, 2, "mean")
    bag = nn.EmbeddingBag.from_pretrained(table.rows(torch.arange(5)).detach(), mode="mean", padding_idx=0)
    torch.testing.assert_close(table(ids), bag(ids))


@pytest.mark.parametrize("kind", KINDS)
def test_output_layer_shares_the_rows(kind: type[OtherTable]) -> None:
    torch.manual_seed(0)
    table = kind(12, 3, 2)
    output = tied_output(table, bias=True)
    hidden = torch.randn(2, 4, 3)
    torch.testing.assert_close(output(hidden), hidden @ table(torch.arange(12)).T + output.bias)
    output(hidden).square().sum().backward()
    assert all(parameter.grad is not None for parameter in table.parameters())


class Values(Task[nn.Module]):
    """A task whose rows have to be given ones."""

    metric = "accuracy"
    wanted = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))

    def model(self, table: MakeTable) -> nn.Module:
        return nn.ModuleDict({"table": table(200)})

    def batches(self) -> Iterator[Batch]:
        yield from ((torch.arange(200),) for _ in range(20))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return (model.table(batch[0]) - self.wanted[batch[0]])[1:].square().mean()

    def score(self, model: nn.Module, part: Part) -> float:
        return -self.loss(model, (torch.arange(200),)).item()

    def example(self) -> Tensor:
        return torch.arange(3)


@pytest.mark.parametrize("method", ["dpq", "opq"])
def test_fine_tuned_table_begins_as_compressed_one_and_improves(method: str) -> None:
    torch.manual_seed(0)
    first = Recipe(dense(8), 3, 1, 1e-2)  # far from converged
    recipe = fine_tuned(Recipe(vq(8, 16, 2), 3, 1, 3e-3), first, method, num_codes=16, num_groups=2)
    assert recipe.begin is not None
    begun: Any = recipe.begin(Values(), 3)
    layer = begun["table"].embedding if method == "opq" else begun["table"]
    assert isinstance(layer, edge_embed.DPQEmbedding)
    nbytes = 200 + 4 * 16 * 8
    assert table_bytes(layer) == nbytes
    rotation = 8 * 8 if method == "opq" else 0
    assert table_bytes(begun["table"]) == nbytes + 4 * rotation
    assert paper_numbers(begun["table"]) == 200 * 2 * 4 / 32 + 16 * 8 + rotation
    before = Values().score(begun.eval(), "test")
    torch.manual_seed(0)
    trained = train(Values(), recipe, method, 3)
    assert Values().score(trained, "test") > before
