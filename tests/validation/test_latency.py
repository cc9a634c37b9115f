"""Latency ratios come from rounds with equal ids; unmeasured ones give a reason."""

import numpy as np
import pytest

from edge_embed.validation import latency
from edge_embed.validation.timing import ratio_of

from .conftest import DIM, ROWS

PEERS = {"portable body", "dense Gather", "empty call"}


def test_latency_covers_every_peer_batch_and_distribution(inline):
    section = inline.validate(iterations=3, warmup=1).latency
    for name in ("table word", "table topic"):
        found = [result for result in section.results if result.subject == name]
        assert {(result.ids, result.distribution, result.peer) for result in found} == {
            (ids, distribution, peer) for ids in (1, 4096) for distribution in ("uniform", "zipf") for peer in PEERS
        }
    model = [result for result in section.results if result.subject == "model"]
    assert [result.peer for result in model] == ["portable body"]
    for result in section.results:
        assert 0 < result.low <= result.ratio <= result.high
        assert result.microseconds > 0
    assert section.machine["processor"]
    assert "random order" in section.method


def test_dense_baseline_that_is_too_large_is_left_out_with_reason(inline, monkeypatch):
    monkeypatch.setattr(latency, "LARGEST_DENSE", 4 * DIM * ROWS)
    results = inline.validate(iterations=2, warmup=0).latency.results
    assert all(result.ratio for result in results if result.subject == "table word")
    (reason,) = {result.reason for result in results if result.subject == "table topic" and result.ratio is None}
    assert "the dense table has 119,040 bytes" in reason


def test_latency_without_iterations_is_not_measured(inline):
    results = inline.validate(iterations=0).latency.results
    assert results
    assert {result.reason for result in results} == {"no iterations were requested"}


@pytest.mark.parametrize("truth", [0.25, 1.0, 3.0])
def test_ratio_withstands_a_machine_that_stalls(truth):
    random = np.random.default_rng(1)
    drift = 1 + random.random(200) * 3  # both sides of a round are slow together
    peer = drift * random.normal(1, 0.02, 200)
    ours = truth * drift * random.normal(1, 0.02, 200)
    ours[::17] *= 50  # sometimes one is interrupted
    ratio = ratio_of(ours, peer, random)
    assert ratio.low <= truth <= ratio.high
    assert ratio.high - ratio.low < 0.05 * truth
    assert ratio.median == pytest.approx(truth, rel=0.02)
