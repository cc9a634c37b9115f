"""Memory of exporting a large table, as a multiple of the packed bytes."""

import pytest

LIMITS = {"trained": 6.0, "frozen": 4.0}  # times the packed bytes
ROWS = 250_000
SMALL = 6 << 20  # allowance of every export, as the cores of TT have only a few MB
LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("DPQ K=256, D=32", "ANT A=32, m=8", "TT R=32")]


@pytest.mark.slow
@pytest.mark.parametrize("state", LIMITS)
@pytest.mark.parametrize("layer", ["DPQ K=16, D=64", *LONG])
def test_peak_memory_of_large_export_stays_below_limit(export_cost, layer, state, capsys):
    cost = export_cost.measure(layer, state, ROWS)
    with capsys.disabled():
        print(f"\n{layer:15} {state:8} {export_cost.describe(cost)}")  # time is printed and has no limit
    assert cost.packed <= 15 << 20
    assert cost.peak <= LIMITS[state] * cost.packed + SMALL
