"""Contenders of the benchmark: each returns the numbers of the packed form or states its error."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.bench import ant, dpq, tt
from edge_embed.bench.peers.faiss_pq import PEERS as FAISS
from edge_embed.bench.peers.listed import OURS, PEERS
from edge_embed.bench.peers.scipy_csr import PEERS as SCIPY
from edge_embed.bench.tables import BenchTable, LeftOutError
from edge_embed.bench.uses import USES, Bag, TopK
from edge_embed.packed import PackedDPQ

ROWS, DIM, BATCH = 300, 64, 24
TABLES = {
    "dpq": dpq.random_table(np.random.default_rng(0), ROWS, DIM, 16, 16),
    "ant": ant.random_table(np.random.default_rng(0), ROWS, DIM, 20, 5),
    "tt": tt.random_table(np.random.default_rng(0), ROWS, DIM, 4),
}
TABLES["ordered tt"] = replace(TABLES["tt"], row_order=np.arange(ROWS, dtype=np.int32)[::-1].copy())
# Limits of peers that round: a few times half a step of their weights, over the largest of some hundred sums.
ROUNDING = {"ORT dynamic int8": 0.03, "ORT MatMulNBits int4": 0.3}
(READ,) = [peer for peer in PEERS["copy"] if peer.name == "read of the table"]
EVERYONE = [*OURS, *(peer for peers in PEERS.values() for peer in peers)]
PAIRS = [
    pytest.param(peer, method, use, id=f"{peer.name}-{method}-{use.name}-{getattr(use, 'mode', getattr(use, 'k', ''))}")
    for method, packed in TABLES.items()
    for use in (*USES.values(), Bag("sum"), Bag("max"), TopK(1), TopK(ROWS))
    for peer in EVERYONE
    if peer is not READ and peer.fits(BenchTable(method, packed, 0), use)
]


def error_of(peer, packed, use, calls=3):
    """Return the error of the last of several calls, whose inputs replace those of the binding."""
    random = np.random.default_rng(1)
    bound = peer.opened(BenchTable("", packed, 1 << 30), use, 1)(use.draw(packed, random, "uniform", BATCH), calls)
    feeds = [use.draw(packed, random, "zipf", BATCH) for _ in range(calls)]
    bound.set_inputs(feeds)
    assert bound.calls == calls
    bound.run()
    return use.error(use.expected(packed, feeds[-1]), bound.results())


@pytest.mark.parametrize(("peer", "method", "use"), PAIRS)
@pytest.mark.slow
def test_peer_results_match_packed_form(peer, method, use):
    error = error_of(peer, TABLES[method], use)
    if peer.exact:
        assert error < 1e-6
    else:
        assert 1e-4 < error < ROUNDING[peer.name]


def test_peers_without_row_scales_are_skipped():
    plain = TABLES["dpq"]
    codes, scales = np.arange(ROWS, dtype=np.int64) % 256, np.linspace(0, 2, 256, dtype=np.float32)
    packed = replace(plain, row_scale_codes=codes.astype(np.uint8), row_scales=scales, unused_columns=1)
    left_out = []
    for peer in EVERYONE:
        for use in USES.values():
            if peer is READ or not peer.fits(BenchTable("dpq", packed, 0), use):
                continue
            try:
                error = error_of(peer, packed, use)
            except LeftOutError:
                left_out.append(peer.name)
            else:
                assert error < (1e-6 if peer.exact else ROUNDING[peer.name]), (peer.name, use.name)
    assert "faiss PQ decode" in left_out
    assert not {"kernel", "custom op", "portable body"} & set(left_out)


def test_read_peer_makes_given_calls_without_results():
    feeds = {"hidden": np.zeros((1, DIM), np.float32)}
    bound = READ.opened(BenchTable("", TABLES["dpq"], 0), USES["topk"], 1)(feeds, 3)
    bound.run()
    assert (bound.calls, bound.results()) == (3, ())


class TestErrorsOfTopK:
    """Errors of top-k results: the largest two of three logits are 4 and 2, in rows 2 and 0."""

    expected = np.array([[2.0, -1, 4]])

    def error(self, values, ids):
        return TopK(2).error(self.expected, (np.array([values]), np.array([ids])))

    def test_error_of_right_topk_is_zero(self):
        assert self.error([4, 2], [2, 0]) == 0

    def test_error_of_wrong_value_is_relative_to_largest(self):
        assert self.error([4, 1], [2, 0]) == 1 / 4

    def test_error_of_wrong_row_is_difference_of_logits(self):
        assert self.error([4, 2], [2, 1]) == 3 / 4

    def test_error_of_swapped_rows_is_difference_of_logits(self):
        assert self.error([4, 2], [0, 2]) == 2 / 4

    @pytest.mark.parametrize("ids", [[2, 2], [2, 3], [2, -3]])
    def test_error_of_invalid_or_equal_rows_is_infinite(self, ids):
        assert self.error([4, 2], ids) == np.inf


def test_peers_exist_for_each_use_of_each_method():
    for method, packed in TABLES.items():
        for use in USES.values():
            table = BenchTable(method, packed, 0)
            assert sum(peer.fits(table, use) for peer in OURS) == 1
            assert any(peer.fits(table, use) for peers in PEERS.values() for peer in peers)
    assert {peer.methods for peer in (*FAISS, *SCIPY)} == {("dpq",), ("ant",)}


@settings(max_examples=15)
@given(codes=st.integers(2, 300), groups=st.integers(1, 9), width=st.integers(1, 5))
def test_faiss_peer_reads_codes_of_any_width(codes, groups, width):
    packed = dpq.random_table(np.random.default_rng(codes), 40, groups * width, codes, groups)
    packed.check_codes()
    assert error_of(FAISS[0], packed, USES["rows"]) == 0


@settings(max_examples=15)
@given(anchors=st.integers(1, 300), data=st.data())
def test_ant_rows_have_given_number_of_weights(anchors, data):
    nonzeros = data.draw(st.integers(1, anchors))
    packed = ant.random_table(np.random.default_rng(anchors), 30, 3, anchors, nonzeros)  # raises if ids do not increase
    assert set(np.diff(packed.row_offsets)) == {nonzeros}


@pytest.mark.parametrize("method", TABLES)
def test_dense_copy_equals_packed_rows_within_limit(method):
    packed = TABLES[method]
    assert np.array_equal(BenchTable("", packed, 4 * ROWS * DIM).dense, packed.rows(np.arange(ROWS)))
    with pytest.raises(LeftOutError, match=r"got 76,800 bytes, expected at most 76,799"):
        _ = BenchTable("", packed, 4 * ROWS * DIM - 1).dense


@pytest.mark.parametrize("padding_idx", [0, 7, ROWS - 1])
def test_drawn_ids_hold_all_rows_except_padding(padding_idx):
    packed = PackedDPQ.from_codes(np.ones((ROWS, 2), np.uint8), np.ones((2, 2, 2), np.float32), padding_idx)
    ids = USES["rows"].draw(packed, np.random.default_rng(0), "uniform", 20 * ROWS)["ids"]
    assert set(ids) == set(range(ROWS)) - {padding_idx}
