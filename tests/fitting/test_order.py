"""Row orders: permutations that fix the padding row and reduce the error of a train or ring."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.fitting import order as order_module
from edge_embed.fitting import tr, tt
from edge_embed.fitting.order import by_clusters, by_frequency
from edge_embed.packed.row_order import checked_row_order


def shuffled_families(n: int = 600, dim: int = 16) -> torch.Tensor:
    """Return rows of twenty families with nearly equal rows, in a random order of ids."""
    generator = torch.Generator().manual_seed(0)
    families = torch.randn(20, dim, generator=generator)[torch.randint(0, 20, (n,), generator=generator)]
    return families + 0.05 * torch.randn(n, dim, generator=generator)


def error(layer: torch.nn.Module, rows: torch.Tensor) -> float:
    with torch.no_grad():
        return float((layer(torch.arange(len(rows))) - rows).norm() / rows.norm())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_orders_are_permutations_that_fix_padding_row(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 40), "n")
    padding = data.draw(st.one_of(st.none(), st.integers(-n, n - 1)), "padding")
    # Few different rows, as of tokens that never occur; huge and tiny ones side by side.
    numbers = st.sampled_from([0.0, 1.0, -1.0, 3e38, -3e38, 1e-40, 0.1])
    rows = torch.tensor(data.draw(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=n, max_size=n), "rows"))
    place = None if padding is None else padding % n
    for order in (by_frequency(rows[:, 0], padding), by_clusters(rows, padding)):
        assert order.dtype == torch.int64
        checked_row_order(order.numpy(), n, place)


def test_frequent_tokens_come_first() -> None:
    counts = torch.tensor([5, 9, 5, 0, 7])
    assert by_frequency(counts).tolist() == [2, 0, 3, 4, 1]
    assert by_frequency(counts, padding_idx=1).tolist() == [2, 1, 3, 4, 0]
    assert by_frequency(counts, padding_idx=-1).tolist() == [1, 0, 2, 3, 4]


def test_similar_rows_become_neighbours() -> None:
    rows = shuffled_families()
    order = by_clusters(rows)
    sorted_rows = rows[order.argsort()]
    far = (sorted_rows.diff(dim=0).norm(dim=1) > 2).sum()
    assert far <= 40  # twenty families; in the order of ids, nearly all of 599 neighbours are of two
    assert (rows.diff(dim=0).norm(dim=1) > 2).sum() > 500


def test_padding_row_does_not_change_order() -> None:
    rows = shuffled_families()
    spoiled = rows.clone()
    spoiled[7] = float("nan")
    assert torch.equal(by_clusters(rows, 7), by_clusters(spoiled, 7))
    with pytest.raises(BadInputError, match="rows: got NaN, infinity"):
        by_clusters(spoiled)


def test_arrays_and_other_types_give_same_order() -> None:
    rows = shuffled_families().half()
    expected = by_clusters(rows)
    for other in (rows.float(), rows.double(), rows.numpy(), rows.float().requires_grad_()):
        assert torch.equal(by_clusters(other), expected)


def test_outlier_rows_are_not_split_off_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is farther away than all before it: clusters of 2,000, 1,999, 1,998 ... would take minutes."""
    looked_at = []
    along_axis = order_module._along_axis
    monkeypatch.setattr(
        order_module, "_along_axis", lambda rows, before: looked_at.append(len(rows)) or along_axis(rows, before)
    )
    order = by_clusters(torch.logspace(-100, 100, 2000, base=2).unsqueeze(1))
    assert torch.equal(order, torch.arange(2000)) or torch.equal(order, torch.arange(1999, -1, -1))
    assert sum(looked_at) < 2000 * 50


@pytest.mark.parametrize("fit", [tt.fit, tr.fit])
@pytest.mark.parametrize("padding_idx", [None, 3, -1])
def test_table_is_fitted_in_its_order(fit, padding_idx) -> None:
    """The layer is that of the sorted table, looked up by id, and has a smaller error for a table of families."""
    rows = shuffled_families()
    order = by_clusters(rows, padding_idx)
    expected = rows.clone()
    if padding_idx is not None:
        expected[padding_idx] = 0
    for weight in (rows, rows.numpy()):
        layer = fit(weight, rank=6, padding_idx=padding_idx, row_order=order)
        plain = fit(rows[order.argsort()], rank=6, padding_idx=padding_idx)
        ids = torch.arange(len(rows))
        # Both are decomposed in float64 and rounded to float32 once: a few roundings of products of up to 6 terms.
        torch.testing.assert_close(layer(ids), plain(order), rtol=0, atol=32 * 2.0**-24 * float(rows.abs().max()))
    assert error(layer, expected) < 0.75 * error(fit(rows, rank=6, padding_idx=padding_idx), expected)


@pytest.mark.parametrize("fit", [tt.fit, tr.fit])
def test_tolerance_and_ratio_hold_with_row_order(fit) -> None:
    rows = shuffled_families()
    order = by_clusters(rows)
    assert error(fit(rows, tolerance=0.2, row_order=order), rows) <= 0.2
    assert fit(rows, ratio=3, row_order=order).compression_ratio >= 3


def test_messages_of_fit_name_ids() -> None:
    rows = shuffled_families()
    rows[7] = float("inf")
    order = by_frequency(torch.arange(600))
    with pytest.raises(BadInputError, match="weight: row 7 contains"):
        tt.fit(rows, rank=4, row_order=order)
    with pytest.raises(BadInputError, match=r"row_order: got int64 \[599\], expected integers \[600\]"):
        tt.fit(rows, rank=4, row_order=order[:-1])


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (torch.ones(2, 2), r"counts: got torch.float32 \[2, 2\], expected a number for each token"),
        (torch.tensor([1.0, float("nan")]), "counts: got"),
        (torch.ones(0), r"counts: got torch.float32 \[0\]"),
        (torch.ones(3, dtype=torch.complex64), "counts: got torch.complex64"),
        (None, "counts: got None"),
    ],
)
def test_counts_that_do_not_fit_are_refused(counts, message) -> None:
    with pytest.raises(BadInputError, match=message):
        by_frequency(counts)


def test_invalid_arguments_of_orders_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"weight: got int64 \[3\], expected floats"):
        by_clusters(np.arange(3))  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="padding_idx 3 is outside a table of 3 rows"):
        by_frequency(torch.arange(3), 3)
