"""Comparison of the uses of a table of a TFLite file, on both runtimes, with built-in operators and the delegate.

Each use runs in a separate graph over the same tensors, because the file has only the inputs of the whole model.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edge_embed.exporters.tflite.graph import Graph
from edge_embed.exporters.tflite.manifest import delegate_metadata
from edge_embed.exporters.tflite.table_uses import add_use
from edge_embed.lowering.id_check import IdCheck
from edge_embed.ops.operators import LEADING
from edge_embed.packed.packed_form import PackedTable, Use
from edge_embed.program.program import Program
from edge_embed.report.results.validation import Check
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions
from edge_embed.targets.tflite.runtimes import WAYS, Outcome, TfliteTarget
from edge_embed.validation import paths
from edge_embed.validation.table_call import Case, Feeds, Results, TableCall
from edge_embed.validation.table_paths import OF_MODEL, Run, check_path


def compare_uses(
    call: TableCall,
    program: Program,
    layout: str,
    random: np.random.Generator,
    options: RunOptions,
    on_path: Callable[[], None],
    id_check: IdCheck | None = None,
) -> list[Check]:
    """Compare one use of a table in the training form and on both runtimes with the packed form."""
    cases = [case for case in call.cases(random) if _can_run(call, case)]
    expected = [call.expected(case) for case in cases]
    openers: dict[str, Callable[[], Run]] = {
        paths.TRAINING: lambda: lambda feeds: call.run_training(program, feeds),
        paths.ORACLE: lambda: call.oracle,
    }
    for way in WAYS:
        every = [*cases, *call.wrong_ids(), *call.refused()]
        openers[way.name] = _opener(way, call, layout, every, options, id_check)
    checks = []
    for name, opener in openers.items():
        checks.append(check_path(name, opener, call, cases, expected, None if name in OF_MODEL else id_check))
        on_path()
    return checks


def write_use(call: TableCall, layout: str, like: Feeds, path: Path, id_check: IdCheck | None = None) -> Path:
    """Write a use of a table as a file, for inputs with types and ranks of ``like``; output layers get fixed sizes."""
    inputs = {
        name: (value.dtype.name, value.shape if _takes_hidden(call) else (-1,) * value.ndim)
        for name, value in _used(call, like).items()
    }
    write_packed(call.use, call.table.packed, call.table.name, layout, inputs, call.leading, path, id_check)
    return path


def write_packed(
    use: Use,
    packed: PackedTable,
    name: str,
    layout: str,
    inputs: Mapping[str, tuple[str, tuple[int, ...]]],
    leading: Sequence[Any],
    path: Path,
    id_check: IdCheck | None = None,
) -> bool:
    """Write a use of a packed table as a file.

    Args:
        use: the use.
        packed: the table.
        name: name of the table.
        layout: layout of the table in the file.
        inputs: types and sizes, by name.
        leading: the arguments before the table: literals, None for missing arguments, any value for an input.
        path: path of the file.
        id_check: check of ids around the use, or None.

    Returns:
        True if the delegate has a kernel for it.
    """
    graph = Graph()
    ends = {end: graph.input(end, dtype, shape) for end, (dtype, shape) in inputs.items()}
    given = [ends.get(end, value) for end, value in zip(_names(use), leading, strict=True)]
    results, line = add_use(graph, use, name, packed, layout, given, id_check)
    graph.write(path, dict(zip(("result", "ids_of_result"), results, strict=False)), delegate_metadata([line]))
    return line is not None


def _names(use: Use) -> list[str]:
    """Return the names of the arguments before the table."""
    return [declared.split()[1] for declared in LEADING[use]]


def _used(call: TableCall, feeds: Feeds) -> Feeds:
    """Drop the weights or the bias if the use has none."""
    leading = dict(zip(_names(call.use), call.leading, strict=True))
    return {name: value for name, value in feeds.items() if leading[name] is not None}


def _can_run(call: TableCall, case: Case) -> bool:
    """Return whether a graph can run a case: rank at least 1; output layers need float32 states of nonzero sizes."""
    first = case.feeds[call.inputs[0]]
    return first.ndim > 0 and (not _takes_hidden(call) or (first.size > 0 and first.dtype == np.float32))


def _takes_hidden(call: TableCall) -> bool:
    return call.use in ("logits", "topk")


@dataclass(frozen=True)
class _Answers:
    """Results of a runtime for every case, found by the content of its inputs."""

    outcomes: Mapping[Any, Outcome]

    def __call__(self, feeds: Feeds) -> Results:
        outcome = self.outcomes[_key(feeds)]
        if isinstance(outcome, str):
            raise RunFailedError(outcome)
        return tuple(result.astype(np.int64) if result.dtype == np.int32 else result for result in outcome)


def _opener(
    target: TfliteTarget,
    call: TableCall,
    layout: str,
    cases: list[Case],
    options: RunOptions,
    id_check: IdCheck | None,
) -> Callable[[], Run]:
    """Return a function that runs all cases at once, because a process for each would take most of the time."""

    def opener() -> Run:
        if reason := target.reason_against():
            raise NotRunError(reason)
        kinds: dict[Any, list[Feeds]] = {}
        for case in cases:
            first = case.feeds[call.inputs[0]]
            sizes = first.shape if _takes_hidden(call) else first.ndim
            kinds.setdefault((first.dtype.name, sizes), []).append(case.feeds)
        outcomes: dict[Any, Outcome] = {}
        with tempfile.TemporaryDirectory() as folder:
            for feeds in kinds.values():
                file = write_use(call, layout, feeds[0], Path(folder) / "use.tflite", id_check)
                model = target.open(file, options.time_limit)
                found, _ = model.attempt([_used(call, each) for each in feeds], options)
                outcomes.update(zip(map(_key, feeds), found, strict=True))
        return _Answers(outcomes)

    return opener


def _key(feeds: Feeds) -> Any:
    return tuple((name, value.dtype.name, value.shape, value.tobytes()) for name, value in feeds.items())
