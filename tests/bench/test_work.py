"""Operations and bytes of the roofline, compared with counts on the arrays."""

import numpy as np
import pytest

from edge_embed.bench import ant, dpq, tt
from edge_embed.bench.least_work import work
from edge_embed.bench.uses import USES, TopK

RANDOM = np.random.default_rng(0)
DPQ = dpq.random_table(RANDOM, 100, 24, 16, 6)
ANT = ant.random_table(RANDOM, 100, 24, 9, 4)
TT = tt.random_table(RANDOM, 60, 24, 3)


def counted_chain(packed, row):
    """Return the number of operations of the products that give one row."""
    operations, state = 0, np.ones((1, 1))
    for core, digit in zip(packed.cores, np.unravel_index(row, packed.shape.row_shape), strict=True):
        step = core[digit].reshape(core.shape[1], -1)
        if state.size > 1:
            operations += 2 * state.shape[0] * step.size
        state = (state @ step).reshape(-1, core.shape[3])
    return operations


def test_operations_of_rows_match_counts():
    assert work(DPQ, USES["rows"], 10).operations == 10 * 24
    assert work(ANT, USES["rows"], 10).operations == 10 * 2 * 4 * 24
    assert work(TT, USES["rows"], 10).operations == 10 * counted_chain(TT, 17)


def test_bytes_of_rows_count_table_ids_and_results():
    assert work(DPQ, USES["rows"], 10).bytes == 10 * (DPQ.codes[0].nbytes + 8 + 4 * 24)
    assert work(ANT, USES["rows"], 10).bytes == 10 * (4 + 4 * (1 + 4) + 8 + 4 * 24)
    assert work(TT, USES["rows"], 10).bytes <= 10 * (8 + 4 * 24) + TT.nbytes


def test_bags_count_additions_and_fewer_result_bytes():
    rows, bags = (work(DPQ, USES[use], 16) for use in ("rows", "bag"))
    assert bags.operations - rows.operations == 16 * 24
    assert rows.bytes - bags.bytes == 14 * 4 * 24 - 2 * 8


@pytest.mark.parametrize("packed", [DPQ, ANT, TT], ids=lambda packed: packed.method)
def test_logits_need_at_most_operations_of_dense_rows(packed):
    n = packed.num_embeddings
    found = work(packed, USES["logits"], 64)
    by_rows = n * work(packed, USES["rows"], 1).operations + 64 * 2 * n * 24
    assert 0 < found.operations <= by_rows
    assert found.bytes == packed.nbytes + 64 * 4 * (24 + n)


def test_topk_adds_one_comparison_a_logit_and_stores_no_logits():
    logits, largest = work(DPQ, USES["logits"], 2), work(DPQ, TopK(7), 2)
    assert largest.operations == logits.operations + 2 * 100
    assert logits.bytes - largest.bytes == 2 * (4 * 100 - (4 + 8) * 7)


def test_logits_of_few_states_need_fewer_operations_than_dense():
    large = tt.random_table(RANDOM, 8000, 64, 4)
    assert work(large, USES["logits"], 1).operations < 2 * 8000 * 64
    assert work(DPQ, USES["logits"], 1).operations == 2 * 16 * 24 + 100 * 6
