"""A table of a TFLite file: what is stored of it, and each of its uses on both runtimes.

A use is run by a graph of its own over the same tensors, because the file has the inputs of the whole model only.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edge_embed.exporters.tflite.graph import Graph
from edge_embed.exporters.tflite.manifest import delegate_metadata
from edge_embed.exporters.tflite.uses import add_use
from edge_embed.inspection.tflite_file import TfliteModel
from edge_embed.ops.operators import LEADING
from edge_embed.packed.container import sha256
from edge_embed.program.program import Program
from edge_embed.report.results import Check
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions
from edge_embed.targets.tflite.runtimes import TARGETS, Outcome, TfliteTarget
from edge_embed.validation import paths
from edge_embed.validation.call import Case, Feeds, Results, TableCall
from edge_embed.validation.table_paths import Run, check_path


def stored_rows(table: str, expected: Mapping[str, str], model: TfliteModel) -> Check:
    """Compare what the file stores of a table with what an export of the model would: SHA-256 by tensor."""
    total = 0
    for tensor, digest in expected.items():
        if tensor.rpartition(".")[0] != table:
            continue
        if tensor not in model.tensors:
            return Check("stored rows", "failed", f"no tensor {tensor}: another tool replaced it, export again")
        if sha256(model.tensors[tensor]) != digest:
            return Check("stored rows", "failed", f"{tensor} differs from what the model gives: export again")
        total += model.tensors[tensor].nbytes
    return Check("stored rows", "passed", f"{total:,} bytes identical")


def compare_uses(
    call: TableCall,
    program: Program,
    layout: str,
    random: np.random.Generator,
    options: RunOptions,
    on_path: Callable[[], None],
) -> list[Check]:
    """One use of a table in the training form and on both runtimes, against the packed form."""
    # A graph has one rank of ids, at least 1; sizes of heads are fixed, and not zero.
    first = call.inputs[0]
    cases = [
        case for case in call.cases(random) if case.feeds[first].ndim and (case.feeds[first].size or not _is_head(call))
    ]
    expected = [call.expected(case) for case in cases]
    openers: dict[str, Callable[[], Run]] = {
        paths.TRAINING: lambda: lambda feeds: call.run_training(program, feeds),
        paths.ORACLE: lambda: call.oracle,
    }
    for target in TARGETS:
        openers[target.name] = _opener(target, call, layout, [*cases, *call.refused()], options)
    checks = []
    for name, opener in openers.items():
        checks.append(check_path(name, opener, call, cases, expected))
        on_path()
    return checks


def write_use(call: TableCall, layout: str, like: Feeds, path: Path) -> Path:
    """A use of a table as a file, for inputs of the types and ranks of some others; those of heads have their sizes."""
    graph, packed = Graph(), call.table.packed
    inputs = {}
    for name, value in _used(call, like).items():
        shape = value.shape if _is_head(call) else (-1,) * value.ndim
        inputs[name] = graph.input(name, value.dtype.name, shape)
    leading = [inputs.get(name, value) for name, value in _leading(call).items()]
    results, line = add_use(graph, call.use, call.table.name, packed, layout, leading)
    graph.write(path, dict(zip(("result", "ids_of_result"), results, strict=False)), delegate_metadata([line]))
    return path


def _leading(call: TableCall) -> Mapping[str, Any]:
    """Arguments before the table by name: literals, None for what the use has not, others for its inputs."""
    return dict(zip((declared.split()[1] for declared in LEADING[call.use]), call.leading, strict=True))


def _used(call: TableCall, feeds: Feeds) -> Feeds:
    """Without weights or a bias where the use has none."""
    return {name: value for name, value in feeds.items() if _leading(call)[name] is not None}


def _is_head(call: TableCall) -> bool:
    return call.use in ("logits", "topk")


@dataclass(frozen=True)
class _Answers:
    """What a runtime gave for every case, found by the content of its inputs."""

    outcomes: Mapping[Any, Outcome]

    def __call__(self, feeds: Feeds) -> Results:
        outcome = self.outcomes[_key(feeds)]
        if isinstance(outcome, str):
            raise RunFailedError(outcome)
        return tuple(result.astype(np.int64) if result.dtype == np.int32 else result for result in outcome)


def _opener(
    target: TfliteTarget, call: TableCall, layout: str, cases: list[Case], options: RunOptions
) -> Callable[[], Run]:
    """All cases at once: to start a process for each would take most of the time."""

    def opener() -> Run:
        if reason := target.reason_against():
            raise NotRunError(reason)
        kinds: dict[Any, list[Feeds]] = {}
        for case in cases:
            first = case.feeds[call.inputs[0]]
            sizes = first.shape if _is_head(call) else first.ndim
            kinds.setdefault((first.dtype.name, sizes), []).append(case.feeds)
        outcomes: dict[Any, Outcome] = {}
        with tempfile.TemporaryDirectory() as folder:
            for feeds in kinds.values():
                model = target.open(write_use(call, layout, feeds[0], Path(folder) / "use.tflite"), options.time_limit)
                found, _ = model.attempt([_used(call, each) for each in feeds], options)
                outcomes.update(zip(map(_key, feeds), found, strict=True))
        return _Answers(outcomes)

    return opener


def _key(feeds: Feeds) -> Any:
    return tuple((name, value.dtype.name, value.shape, value.tobytes()) for name, value in feeds.items())
