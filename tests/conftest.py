"""What every test relies on: property tests that find the same examples, small tensors on one thread."""

import copy
import functools
import gc
import os
from collections.abc import Iterator

# Threads cost more than they give on tensors this small, and wait for each other on a busy machine. Subprocesses
# inherit it. Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Processes of pytest-xdist have a width, which commands would break their lines at.
os.environ.pop("COLUMNS", None)

import typing
from typing import Any

import pytest
from hypothesis import settings

# No deadline: shared machines stall, and a stall is no failure. Derandomised: a red run can be repeated.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def _translations_parsed_once() -> Iterator[None]:
    """torch.onnx.export parses all of torch's translations anew each time: two thirds of exporting a small model."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    parsed = functools.cache(ONNXRegistry.from_torchlib)

    def copied(**opset: int) -> ONNXRegistry:
        registry = copy.copy(parsed(**opset))
        registry.functions = {target: list(found) for target, found in registry.functions.items()}
        return registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(copied))
        yield


@pytest.fixture(scope="session", autouse=True)
def _operators_listed_once() -> Iterator[None]:
    """torch.export lists torch's operators and gives thousands of functions types, anew for each model.

    That is a third of capturing a small model. Operators that came since are listed.
    """
    from torch import _C, _ops
    from torch._export import utils
    from torch.export import decomp_utils, exported_program

    list_all = utils._collect_all_valid_cia_ops
    listed = functools.lru_cache(maxsize=1)(lambda operators: frozenset(list_all()))
    with pytest.MonkeyPatch.context() as patch:
        for module in (utils, decomp_utils, exported_program):
            patch.setattr(
                module, "_collect_all_valid_cia_ops", lambda: set(listed(len(_C._dispatch_get_all_op_names())))
            )
        patch.setattr(_ops, "Callable", typing.Callable)  # which makes a type once, that of `collections.abc` each time
        yield


def pytest_collection_finish() -> None:
    """Imports are not looked at again: collecting garbage took a fifth of the time of tests that export."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def _opened_here() -> Iterator[None]:
    """Exports are opened in this process: one of its own would take half a second of every test that exports."""
    from edge_embed.validation import opening, opens

    def run_here(target: str, arguments: list[str]) -> dict[str, Any]:
        return {"onnx": opens.open_onnx, "tflite": opens.open_tflite}[target](*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "run_opens", run_here)
        yield
