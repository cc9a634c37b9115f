"""A number printed beside its limit is on the same side of it as the number itself."""

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edge_embed import TREmbedding
from edge_embed.errors import BadInputError
from edge_embed.gate.base_latency import base_findings
from edge_embed.gate.budget import ParityBudget, RowsBudget
from edge_embed.gate.row_limits import row_findings
from edge_embed.gate.validation_findings import bound_findings, peer_findings
from edge_embed.report.beside_limit import beside_limit
from edge_embed.report.results.fidelity import Fidelity
from edge_embed.report.results.interval import Interval
from edge_embed.report.results.validation import OutputResult
from edge_embed.validation.model_inputs import ModelCase
from edge_embed.validation.model_paths import run_path
from edge_embed.validation.options import ValidationOptions


@pytest.mark.parametrize(
    ("got", "limit", "texts"),
    [
        (0.99998, 0.99999, ("0.99998", "0.99999")),
        (0.999999997, 1.0, ("0.999999997", "1")),
        (0.5, 0.9999999, ("0.5", "0.9999999")),
        (1.10004, 1.1, ("1.10004", "1.1")),
        (0.25, 0.25, ("0.25", "0.25")),
        (1 / 3, 1 / 3, ("0.333333333333", "0.333333333333")),
        (np.nextafter(1, 0), 1.0, ("0.9999999999999999", "1")),
        (0.1 + 0.2, 0.3, ("0.30000000000000004", "0.3")),
        (np.inf, 1e-5, ("inf", "1e-05")),
    ],
)
def test_number_is_shown_on_its_side_of_limit(got: float, limit: float, texts: tuple[str, str]) -> None:
    assert beside_limit(got, limit) == texts


def test_random_numbers_are_shown_on_their_side_of_limit() -> None:
    random = np.random.default_rng(0)
    for limit in random.uniform(0, 2, 200):
        for got in limit * (1 + random.choice([-1, 1], 8) * 10.0 ** -np.arange(1, 17, 2)):
            shown, bound = map(float, beside_limit(got, limit))
            assert (shown < bound, shown > bound) == (got < limit, got > limit)


def details(findings: Any) -> list[tuple[str, str]]:
    return [(finding.status, finding.detail) for finding in findings]


def test_failures_of_check_show_number_beyond_limit() -> None:
    fidelity = Fidelity(0.1000000001, 0.99998999, (), None, ((7, 0.89999999),), 8, 4, 4)
    report: Any = SimpleNamespace(tables=[SimpleNamespace(name="words", fidelity=fidelity)])
    assert details(row_findings(RowsBudget(0.99999, 0.9, 0.1), report)) == [
        ("failed", "0.99998999, less than 0.99999 (rows.min_cosine)"),
        ("failed", "0.89999999, less than 0.9 (rows.min_worst_cosine)"),
        ("failed", "0.1000000001, more than 0.1 (rows.max_relative_error)"),
    ]
    output = OutputResult("logits", "passed", 0.01000001, None, None, 1, 1, 1, "")
    assert details(bound_findings(ParityBudget(max=0.01), "model", output)) == [
        ("failed", "largest absolute error 0.01000001, more than 0.01 (parity.max)")
    ]
    measured = SimpleNamespace(
        subject="model", title="model", peer="portable body", ids=None, ratio=1.31, low=1.20004, high=1.4
    )
    section: Any = SimpleNamespace(latency=SimpleNamespace(results=[measured]), passed=True)
    ((_, detail),) = details(peer_findings({"portable body": 1.2}, section))
    assert detail.startswith("1.31 (1.20004 to 1.4) times the CPU time of portable body, low end of the interval more")
    slower: Any = SimpleNamespace(comparisons=[SimpleNamespace(title="model", cpu=Interval(1.10004, 1.00001, 1.2))])
    ((_, detail),) = details(base_findings(slower, Fraction(1, 10)))
    assert detail.startswith("1.10004 (1.00001 to 1.2) times the CPU time of the base; fails above 1.1 if")


def test_refused_ratio_of_layer_is_above_shown_limit() -> None:
    most = TREmbedding(25_000, 256, rank=1).compression_ratio
    with pytest.raises(BadInputError, match=r"got 9696\.96969797, expected at most 9696\.969697, that of rank 1"):
        TREmbedding(25_000, 256, ratio=most + 1e-6)


def test_difference_of_outputs_is_shown_above_its_tolerance() -> None:
    case = ModelCase("the example", (), (np.array([2.0, 0.0]),))
    options = ValidationOptions().given(atol=0.25, rtol=0.25).for_weights(half=False)
    path = run_path("portable body", lambda: lambda _: (np.array([2.750001, 0.0]),), ("logits",), [case], options)
    assert "1 of 2 values differ, at [0] by 0.750001; allowed atol 0.25 + rtol 0.25 * |2|" in path.detail
