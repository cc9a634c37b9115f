"""Settings of every test: repeatable examples of property tests, and one thread for small tensors.

Work that many tests would repeat for the same input is done once a process.
"""

import os

# More threads are slower on tensors this small, and wait for each other on a busy machine. Subprocesses inherit the
# variable. It is set before any import below, as torch reads it when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# pytest-xdist sets a width for its processes, and commands would break their lines there.
os.environ.pop("COLUMNS", None)

import copy
import functools
import gc
import logging
import typing
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# No deadline: shared machines stall, and a stall is no failure. Derandomised: a red run can be repeated.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


# pytest would add a handler to this logger in each test, and with a handler torch writes hundreds of records a trace.
logging.getLogger("torch.__trace").addHandler = lambda hdlr: None  # type: ignore[method-assign]


@pytest.fixture(scope="session", autouse=True)
def _translations_parsed_once() -> Iterator[None]:
    """Parse torch's translations to ONNX once: each call of torch.onnx.export would take two thirds of its time."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    parsed = functools.cache(ONNXRegistry.from_torchlib)

    def copied(**opset: int) -> ONNXRegistry:
        registry = copy.copy(parsed(**opset))
        registry.functions = {target: list(found) for target, found in registry.functions.items()}
        return registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(copied))
        yield


# Files that take the longest begin first: a process that begins one at the end would work alone for minutes.
LONGEST = (
    "runtime_ops/test_cpp.py",
    "docs/test_blocks.py",
    "samples/test_cpp.py",
    "compression/test_search.py",
    "fitting/test_processes.py",
    "fitting/test_checkpoints.py",
    "fuzz/test_fuzz_files.py",
    "gate/test_false_alarms.py",
    "runtime_ops/test_isa.py",
    "targets/web/test_webgpu.py",
    "test_compress.py",
    "test_compress_memory.py",
    "test_packaging.py",
    "test_supervisor.py",
    "test_torchrun.py",
    "validation/test_next_tokens.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; pytest-xdist keeps this order (--no-loadscope-reorder)."""
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(LONGEST)))


def pytest_collection_finish() -> None:
    """Exclude imported objects from garbage collection, which took a fifth of the time of tests that export."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def _opened_here() -> Iterator[None]:
    """Open exported files in this process: another process would add half a second to every test that exports."""
    from edge_embed.validation import open_worker, opening

    def run_here(target: str, arguments: list[str]) -> dict[str, Any]:
        return {"onnx": open_worker.open_onnx, "tflite": open_worker.open_tflite}[target](*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "run_opens", run_here)
        yield


@pytest.fixture(scope="session", autouse=True)
def _operators_listed_once() -> Iterator[None]:
    """List torch's operators once: torch.export lists them and builds thousands of function types for each model.

    That takes a third of the time of capturing a small model. The list is renewed when operators were added.
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
        patch.setattr(_ops, "Callable", typing.Callable)  # caches its types; `collections.abc.Callable` does not
        yield


@pytest.fixture(scope="session", autouse=True)
def _decompositions_set_at_once() -> Iterator[None]:
    """Set six thousand kernels in one step: torch.export sets each one, which is a seventh of exporting a small model.

    It does so four times a model.
    """
    from torch.export import exported_program

    from .kernels_at_once import override_decompositions

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exported_program, "_override_composite_implicit_decomp", override_decompositions)
        yield


@pytest.fixture(scope="session", autouse=True)
def _same_input_same_result() -> Iterator[None]:
    """Share results of validation between tests: the repeated export and the started processes, once an input."""
    from edge_embed.exporters.onnx import export
    from edge_embed.exporters.onnx.tokenizer import characters
    from edge_embed.exporters.tflite import whole_model
    from edge_embed.gate import base_latency
    from edge_embed.targets.tflite.runtimes import OpenedModel
    from edge_embed.validation import as_exported, expected_export, optimized_session, sizes

    from .once import (
        built_before,
        characters_normalized_once,
        characters_sorted_once,
        remember_built,
        same_body_converted_once,
        same_model_run_once,
        same_program_written_once,
        same_session_measured_once,
        same_structure_optimized_once,
    )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(as_exported, "written_by_export", same_program_written_once)
        patch.setattr(export, "build_model", remember_built)
        patch.setattr(whole_model, "convert_body", same_body_converted_once)
        patch.setattr(expected_export, "build_model", built_before)
        patch.setattr(characters._Kinds, "all", characters_sorted_once)
        patch.setattr(characters, "_normalized", characters_normalized_once)
        patch.setattr(optimized_session, "optimize_all", same_structure_optimized_once)
        patch.setattr(sizes, "measure_fresh", same_session_measured_once)
        patch.setattr(base_latency, "measure_fresh", same_session_measured_once)
        patch.setattr(OpenedModel, "attempt", same_model_run_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _tflite_runs_without_imports() -> Iterator[None]:
    """Run LiteRT in this process and tflite-runtime in forks: a validation would start six processes that import them.

    Runs with a time limit, and runs that fail in a fork, start a process.
    """
    from edge_embed.quiet import quiet_stderr
    from edge_embed.targets.target import RunFailedError, RunOptions
    from edge_embed.targets.tflite import runtimes, worker

    from .forked_worker import ForkedWorkers

    start, forked = runtimes.run_program, ExitStack()

    @functools.cache
    def workers(python: tuple[str, ...], variables: tuple[tuple[str, str], ...]) -> ForkedWorkers:
        return forked.enter_context(ForkedWorkers(python, dict(variables), worker.__file__))

    def run(command: list[Any], time_limit: float, *, environment: dict[str, str], what: str) -> str:
        at = command.index(worker.__file__) if worker.__file__ in command else 0
        python, arguments = command[:at], list(map(str, command[at + 1 :]))
        if not at or time_limit < RunOptions.time_limit:
            pass
        elif python[1:] == ["-P"]:
            run_here(*arguments, what=what)
            return ""
        elif workers(tuple(python), tuple(environment.items())).is_done(arguments):
            return ""
        return start(command, time_limit, environment=environment, what=what)

    def run_here(model: str, folder: str, iterations: str, threads: str, *delegate: str, what: str) -> None:
        try:
            with quiet_stderr():
                worker.main(model, Path(folder), int(iterations), int(threads), *delegate)
        except (Exception, SystemExit) as error:
            name = "" if isinstance(error, SystemExit) else f"{type(error).__name__}: "
            raise RunFailedError(f"{what} ended with status 1: {name}{error}") from error

    with forked, pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtimes, "run_program", run)
        yield


@pytest.fixture(scope="session", autouse=True)
def _sessions_wait_without_spinning() -> Iterator[None]:
    """Turn off spinning: waiting threads of ONNX Runtime take a third of the time of opening and running a model."""
    import onnxruntime

    class Waiting(onnxruntime.SessionOptions):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.add_session_config_entry("session.intra_op.allow_spinning", "0")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnxruntime, "SessionOptions", Waiting)
        yield
