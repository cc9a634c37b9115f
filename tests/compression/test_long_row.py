"""Warning about a row far longer than the others: it names the table, the row and the factor."""

import logging

import pytest
import torch
from torch import nn

import edge_embed

SIZES = {"dpq": {"num_codes": 4, "num_groups": 2}, "tt": {"rank": 2}, "rows": {"bits": 4}}


def warned(method: str, factor: float, caplog: pytest.LogCaptureFixture) -> list[str]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(90, 8), nn.Linear(8, 2))
    with torch.no_grad():
        model[0].weight[17] *= factor
    with caplog.at_level(logging.WARNING):
        edge_embed.compress(model, method, **SIZES[method])
    return [record.getMessage() for record in caplog.records if "times the mean norm" in record.getMessage()]


@pytest.mark.parametrize(("method", "factor", "times"), [("dpq", 1e20, "e+19"), ("tt", 1e5, "e+04")])
def test_row_far_longer_than_others_is_named(
    method: str, factor: float, times: str, caplog: pytest.LogCaptureFixture
) -> None:
    (message,) = warned(method, factor, caplog)
    assert message.startswith("table 0: the norm of row 17 is ")
    assert f"{times} times the mean norm" in message


@pytest.mark.parametrize(("method", "factor"), [("dpq", 100), ("rows", 1e20)])
def test_row_without_effect_on_others_is_not_named(
    method: str, factor: float, caplog: pytest.LogCaptureFixture
) -> None:
    assert warned(method, factor, caplog) == []
