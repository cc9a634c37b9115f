"""Latency of an ``.onnx`` file against an earlier one: one process, call by call, same inputs, random order.

The measurement covers the whole model and every table that both files have, cut out. The CPU time of the single thread
decides. Wall time, and the figures of each side in a process of its own, are informational. Each side runs with its own
operator library, so that a change of the library is measured too.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime as ort

from edge_embed.errors import BadInputError, TimeLimitError, located, one_line
from edge_embed.gate.budget import LatencyBudget
from edge_embed.gate.environment import library_hash
from edge_embed.input_file import check_regular
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.program.program import Program
from edge_embed.report.beside_limit import beside_limit
from edge_embed.report.results.check import MODEL, BaseResult, Comparison, Side
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.validation import Status
from edge_embed.runtime.library import get_library_path
from edge_embed.runtime.session import create_session
from edge_embed.steps import step
from edge_embed.targets.target import NotRunError
from edge_embed.validation import latency, model_inputs, paths
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.fresh_process import measure_fresh
from edge_embed.validation.submodel import copy_tensors, cut_out
from edge_embed.validation.table_call import TableCall
from edge_embed.validation.table_paths import table_calls
from edge_embed.validation.tables import Table
from edge_embed.validation.timing import Contender, Feeds, Times, ratio_of_blocks, ready_session, time_rounds

BASE, CANDIDATE = "base", "candidate"
RULES = (
    "Each round runs both sides in random order on the same inputs; every call has new inputs. Each of up to 10 blocks "
    "of rounds has new sessions and buffers; the sides alternate in being opened first. A result slower than the "
    "threshold is replaced by a measurement with four times the rounds. Figures: median ratio and its 95 % bootstrap "
    "interval over blocks and their rounds."
)
METHOD = f"CPU clock of the single thread; I/O binding with preallocated outputs (texts: plain calls). {RULES}"
# The addresses of buffers can favour one side by 15 % for as long as the buffers live; more rounds do not show that.
_BLOCKS = 10
_WARMUP = 2
_SAMPLE_SECONDS = 2e-3  # one side in one round; long enough to make clock and interruptions negligible
_MOST_CALLS = 512
_LONGER = 4
_TRIALS = 5


@dataclass(frozen=True)
class SideModel:
    """One side: an exported file and the operator library that it runs with."""

    name: str
    exported: ExportedModel
    library: Path

    def open(self, path: Path) -> ort.InferenceSession:
        """Open a session of this file, or of a part of it, on one thread.

        Raises:
            BadInputError: the file is no operator library, or the model cannot be opened with it.
        """
        options = paths.quiet_options(threads=1)
        try:
            options.register_custom_ops_library(str(self.library))
        except Exception as error:  # the runtime's exceptions share no base class
            reason = one_line(error)
            raise BadInputError(f"{self.library}: cannot be registered as an operator library: {reason}") from error
        with step(f"{self.name}: open {path.name}"):
            return create_session(path, portable=True, options=options)  # uses the library registered above


@dataclass(frozen=True)
class SharedComputation:
    """Computation that both sides perform, each with its whole file or with the same part of it.

    Attributes:
        name: description.
        items: ids or states per call, None for the whole model.
        draw: draws inputs of one call.
        bind: prepares a side, by its name, for a number of calls with inputs of these shapes.
    """

    name: str
    items: int | None
    draw: Callable[[], Feeds]
    bind: Callable[[str, Feeds, int], Contender]


def sides_of(
    exported: Path, base: Path, base_library: Path | None, original: Path | None = None
) -> tuple[SideModel, SideModel]:
    """Return base and candidate; ``original`` is the file that both were compressed from, if they were.

    Raises:
        BadInputError: a file is no ONNX model.
        NotRunError: there is no operator library.
    """
    if base_library is not None:
        with located(str(base_library)):
            check_regular(base_library, "an operator library")
    base_model, candidate = ExportedModel(base, original), ExportedModel(exported, original)
    if reason := paths.missing_library():
        raise NotRunError(reason)
    library = get_library_path()
    return SideModel(BASE, base_model, base_library or library), SideModel(CANDIDATE, candidate, library)


def compare_with_base(
    sides: tuple[SideModel, SideModel], program: Program, lowered: LoweredProgram, budget: LatencyBudget, seed: int
) -> BaseResult:
    """Measure both sides, together and each in a process of its own; arguments as for `compare_times`."""
    (case, *_), _ = model_inputs.make_cases(program, np.random.default_rng(seed))
    fresh = tuple(_fresh(side, case.feeds(program)) for side in sides)
    return BaseResult(METHOD, fresh, compare_times(sides, program, lowered, budget, seed))


def compare_times(
    sides: tuple[SideModel, SideModel], program: Program, lowered: LoweredProgram, budget: LatencyBudget, seed: int
) -> tuple[Comparison, ...]:
    """Measure the whole model and every table, call by call.

    Args:
        sides: base and candidate.
        program: the training form, which defines the inputs.
        lowered: the same program over packed tables.
        budget: number of rounds, and threshold.
        seed: seed of inputs and order.
    """
    random = np.random.default_rng(seed)
    (case, *_), _ = model_inputs.make_cases(program, random)
    draw = latency.model_drawer(program, case, random)
    files = {side.name: (side, side.exported.path) for side in sides}
    comparisons = [confirmed(SharedComputation(MODEL, None, draw, partial(_bind, files)), budget)]
    tables = {name: Table(name, packed) for name, packed in lowered.tables.items()}
    for calls in table_calls(program, lowered, tables).values():
        for call in {call.name: call for call in calls}.values():  # one measurement for all calls of the same kind
            comparisons += _table(sides, call, random, budget)
    return tuple(comparisons)


def base_findings(result: BaseResult, threshold: Fraction) -> Iterator[Finding]:
    """Yield a finding for each comparison; it fails if significantly slower than the base, above the threshold.

    The whole model must run; a table may be new.
    """
    limit = float(1 + threshold)
    for found in result.comparisons:
        name = f"{found.title} against the base"
        if found.cpu is None:
            is_model = found.subject == MODEL
            yield Finding("latency", name, "not run", found.reason, None, limit, "ratio", must_run=is_model)
            continue
        status: Status = "failed" if _is_slower(found, threshold) else "passed"
        (median, most), (low, _) = beside_limit(found.cpu.median, limit), beside_limit(found.cpu.low, 1)
        interval = f"{median} ({low} to {found.cpu.high:.4g}) times the CPU time of the base"
        detail = f"{interval}; fails above {most} if the whole interval is above 1"
        detail += " (latency.threshold)" if status == "failed" else ""
        yield Finding("latency", name, status, detail, found.cpu.median, limit, "ratio")


def _is_slower(found: Comparison, threshold: Fraction) -> bool:
    """Return whether a comparison exceeds the threshold, and the interval lies above 1."""
    return found.cpu is not None and found.cpu.low > 1 and found.cpu.median > float(1 + threshold)


def _table(
    sides: Sequence[SideModel], call: TableCall, random: np.random.Generator, budget: LatencyBudget
) -> Iterator[Comparison]:
    """Measure one use of a table, for small and large batches of uniform ids."""
    subject = f"table {call.table.name}, {call.name}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            files = {side.name: (side, _cut_out(side, call, Path(folder))) for side in sides}
        except NotRunError as error:
            yield Comparison(subject, None, None, None, None, None, str(error))
            return
        for batch in call.batches:
            draw = partial(call.timed, random, "uniform", batch)
            bind = partial(_bind, files, touch=partial(latency.touch_table, call, random=random))
            yield confirmed(SharedComputation(subject, batch, draw, bind), budget)


def _bind(
    files: Mapping[str, tuple[SideModel, Path]],
    side: str,
    feeds: Feeds,
    calls: int,
    touch: Callable[[ort.InferenceSession], None] = lambda session: None,
) -> Contender:
    """Prepare a session of a side's file; ``touch`` runs on it first."""
    model, path = files[side]
    session = model.open(path)
    touch(session)
    return ready_session(session, feeds, calls)


def _cut_out(side: SideModel, call: TableCall, folder: Path) -> Path:
    missing = [name for name in call.table.tensors if side.exported.spec(name) is None]
    if missing:
        raise NotRunError(f"the {side.name} has no tensor {missing[0]}")
    own = folder / side.name
    own.mkdir()
    submodel = cut_out(call, side.exported, copy_tensors(call.table, side.exported, own), own)
    if submodel is None:
        raise NotRunError(f"the {side.name} has no node {call.op_type} of table {call.table.name}")
    return submodel.path


def confirmed(subject: SharedComputation, budget: LatencyBudget) -> Comparison:
    """Compare one subject; a slower result is replaced by a longer measurement.

    With many tables, one of them would seem slower by chance.
    """
    found = _compare(subject, budget.iterations)
    return _compare(subject, _LONGER * budget.iterations) if _is_slower(found, budget.threshold) else found


def _compare(subject: SharedComputation, iterations: int) -> Comparison:
    """Measure both sides of one subject, block by block and round by round."""
    random, trial = np.random.default_rng(iterations), subject.draw()
    calls = 1
    for name in (BASE, CANDIDATE):
        try:
            calls = _calls(subject.bind(name, trial, 1), trial)
        except BadInputError:  # the file or the library is invalid
            raise
        except Exception as error:  # the runtime's exceptions share no base class
            reason = f"the {name} does not run on the inputs of the model: {one_line(error)}"
            return Comparison(subject.name, subject.items, None, None, None, None, reason)
    blocks = min(_BLOCKS, iterations)
    rounds = -(-iterations // blocks)
    try:
        times = [_block(subject, trial, calls, block, rounds, random) for block in range(blocks)]
    except (TimeLimitError, BadInputError):
        raise
    except Exception as error:  # the runtime's exceptions share no base class
        return Comparison(subject.name, subject.items, None, None, None, None, latency.refused(error))
    base, candidate = (
        Times(np.array([block[name].cpu for block in times]), np.array([block[name].wall for block in times]))
        for name in (BASE, CANDIDATE)
    )
    return Comparison(
        subject.name,
        subject.items,
        ratio_of_blocks(candidate.cpu, base.cpu, random),
        ratio_of_blocks(candidate.wall, base.wall, random),
        1e6 * float(np.median(base.cpu)),
        1e6 * float(np.median(candidate.cpu)),
        "",
    )


def _block(
    subject: SharedComputation, trial: Feeds, calls: int, block: int, rounds: int, random: np.random.Generator
) -> dict[str, Times]:
    """Measure some rounds with new sessions and buffers."""
    order = (BASE, CANDIDATE) if block % 2 else (CANDIDATE, BASE)
    bound = {name: subject.bind(name, trial, calls) for name in order}
    return time_rounds(bound, lambda: [subject.draw() for _ in range(calls)], rounds, _WARMUP, random)


def _calls(bound: Contender, feeds: Feeds) -> int:
    """Return the number of calls that fill a sample of some milliseconds."""
    times = time_rounds({"": bound}, lambda: [feeds], _TRIALS, 1, np.random.default_rng(0))[""]
    return int(np.clip(_SAMPLE_SECONDS / max(1e-7, float(np.median(times.wall))), 1, _MOST_CALLS))


def _fresh(side: SideModel, feeds: Feeds) -> Side:
    about = (side.name, str(side.exported.path), library_hash(side.library))
    try:
        found = measure_fresh(side.exported.path, side.library, feeds)
    except NotRunError as error:
        return Side(*about, None, None, None, None, reason=str(error))
    return Side(*about, found.resident, found.peak, found.open_seconds, found.first_call_seconds, reason="")
