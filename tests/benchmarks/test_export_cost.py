"""Memory of exporting a large table, as a multiple of the packed bytes."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

LIMITS = {"trained": 6.0, "frozen": 4.0}  # times the packed bytes
ROWS = 250_000
SMALL = 6 << 20  # allowance of every export, as the cores of TT have only a few MB


@pytest.fixture(scope="module")
def export_cost() -> ModuleType:
    spec = importlib.util.spec_from_file_location("export_cost", Path(__file__).with_name("export_cost.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("state", LIMITS)
@pytest.mark.parametrize("layer", ["DPQ K=16, D=64", "DPQ K=256, D=32", "ANT A=32, m=8", "TT R=32"])
def test_peak_memory_of_large_export_stays_below_limit(export_cost, layer, state, capsys):
    cost = export_cost.measure(layer, state, ROWS)
    with capsys.disabled():
        print(f"\n{layer:15} {state:8} {export_cost.describe(cost)}")  # time is printed and has no limit
    assert cost.packed <= 15 << 20
    assert cost.peak <= LIMITS[state] * cost.packed + SMALL
