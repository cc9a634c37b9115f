"""One use of a table on every path: the same inputs, compared with the packed form."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import fx

from edge_embed.errors import TimeLimitError, one_line
from edge_embed.lowering.graph import CALLS, LoweredProgram, table_of
from edge_embed.lowering.id_check import IdCheck
from edge_embed.packed.packed_form import Use
from edge_embed.program.program import Program
from edge_embed.report.results.validation import Check
from edge_embed.steps import step
from edge_embed.targets.reference import open_reference
from edge_embed.targets.target import NotRunError
from edge_embed.validation import paths
from edge_embed.validation.bag import BagCall
from edge_embed.validation.logits import LogitsCall
from edge_embed.validation.rows import RowsCall
from edge_embed.validation.submodel import Submodel
from edge_embed.validation.table_call import Case, Expected, Feeds, Results, TableCall
from edge_embed.validation.tables import Table
from edge_embed.validation.topk import TopKCall

USES: Mapping[Use, type[TableCall]] = {call.use: call for call in (RowsCall, BagCall, LogitsCall, TopKCall)}

Run = Callable[[Feeds], Results]
OF_MODEL = (paths.TRAINING, paths.ORACLE)  # paths without a file, which refuse wrong ids


def table_calls(program: Program, lowered: LoweredProgram, tables: Mapping[str, Table]) -> dict[str, list[TableCall]]:
    """Return every call of a packed operator with the call of the program's graph that it replaced, by table.

    Lowering replaces calls in place and drops those with unused results. So after dead code is removed, both graphs
    have the calls in the same order.
    """
    original = fx.Graph()
    original.output(original.graph_copy(program.module.graph, {}))
    original.eliminate_dead_code()
    before = [node for node in original.nodes if node.target in CALLS]
    after = [packed_call(node, tables) for node in lowered.program.module.graph.nodes]
    found: dict[str, list[TableCall]] = {name: [] for name in tables}
    for old, call in zip(before, filter(None, after), strict=True):
        found[call.table.name].append(replace(call, training=old))
    return found


def packed_call(node: fx.Node, tables: Mapping[str, Table]) -> TableCall | None:
    """Return the use of a table that a node of a lowered graph represents, or None."""
    if node.target not in CALLS:
        return None
    return USES[CALLS[node.target].use](tables[table_of(node)], node, node)


def compare_paths(
    call: TableCall,
    program: Program,
    submodel: Submodel | None,
    random: np.random.Generator,
    on_path: Callable[[], None],
) -> tuple[Check, ...]:
    """Run all cases through all paths.

    Args:
        call: the use of the table.
        program: the training form.
        submodel: the node cut out of the exported file, or None if the file lacks it.
        random: source of the inputs.
        on_path: called after each path.
    """
    cases = call.cases(random)
    expected = [call.expected(case) for case in cases]
    openers: dict[str, Callable[[], Run]] = {
        paths.TRAINING: lambda: lambda feeds: call.run_training(program, feeds),
        paths.ORACLE: lambda: call.oracle,
        paths.REFERENCE: lambda: _reference(submodel),
        paths.PORTABLE: lambda: _sessions(call, submodel, portable=True),
        paths.CUSTOM: lambda: _sessions(call, submodel, portable=False),
    }
    checks = []
    for name, opener in openers.items():
        id_check = None if submodel is None or name in OF_MODEL else submodel.id_check
        checks.append(check_path(name, opener, call, cases, expected, id_check))
        on_path()
    return tuple(checks)


def _reference(submodel: Submodel | None) -> Run:
    evaluators = {dtype: open_reference(path) for dtype, path in _files(submodel).items()}

    def run(feeds: Feeds) -> Results:
        with step("the reference evaluator runs a table"):
            found: list[Any] = evaluators[_first_type(feeds)].run(None, dict(feeds))  # type: ignore[assignment]
        return tuple(map(np.asarray, found))

    return run


def _sessions(call: TableCall, submodel: Submodel | None, portable: bool) -> Run:
    sessions = {dtype: paths.open_session(path, portable) for dtype, path in _files(submodel).items()}
    what = f"{paths.PORTABLE if portable else paths.CUSTOM}: table {call.table.name}, {call.name}"
    return lambda feeds: tuple(paths.run_session(sessions[_first_type(feeds)], None, feeds, what))


def _first_type(feeds: Feeds) -> np.dtype[Any]:
    return next(iter(feeds.values())).dtype


def _files(submodel: Submodel | None) -> Mapping[np.dtype[Any], Path]:
    if submodel is None:
        raise NotRunError("the table, its node or its portable body is missing in the file or differs")
    return submodel.paths


def check_path(
    name: str,
    opener: Callable[[], Run],
    call: TableCall,
    cases: list[Case],
    expected: list[Expected],
    id_check: IdCheck | None = None,
) -> Check:
    """Run all cases on one path, and those that it must refuse, or answer with NaN if ``id_check`` is ``nan``."""
    try:
        run = opener()
    except NotRunError as error:
        return Check(name, "not run", str(error))
    except Exception as error:  # any exception of a runtime means that the path does not run
        return Check(name, "failed", f"cannot be opened: {one_line(error)}")
    for case, wanted in zip(cases, expected, strict=True):
        try:
            problem = call.difference(case, run(case.feeds), wanted)
        except TimeLimitError:
            raise
        except Exception as error:
            problem = f"fails: {one_line(error)}"
        if problem:
            return Check(name, "failed", f"{case.name}: {problem}")
    marked = call.wrong_ids() if id_check == "nan" else []
    for case in marked:
        if problem := _unmarked(run, case):
            return Check(name, "failed", f"{case.name}: {problem}")
    for case in [*([] if marked else call.wrong_ids()), *call.refused()]:
        if _accepts(run, case):
            return Check(name, "failed", f"{case.name}: got a result, expected an error")
    relation = "bit-identical" if expected[0].magnitudes is None else "within rounding"
    count = sum(wanted.values.size for wanted in expected)
    wrong = "wrong ids give NaN" if marked else "invalid inputs are refused"
    return Check(name, "passed", f"{relation}: {count:,} values in {len(cases)} cases; {wrong}")


def _unmarked(run: Run, case: Case) -> str:
    """Return the error of a path that must mark the second of two results with NaN, or an empty string."""
    try:
        sound, marked = run(case.feeds)[0]
    except TimeLimitError:
        raise
    except Exception as error:  # any exception of a runtime
        return f"fails: {one_line(error)}"
    if np.isnan(sound).any():
        return "got NaN for a valid id"
    return "" if np.isnan(marked).all() else f"got {marked[~np.isnan(marked)][0]}, expected NaN"


def _accepts(run: Run, case: Case) -> bool:
    try:
        run(case.feeds)
    except TimeLimitError:
        raise
    except Exception:  # each path has its own type of error
        return False
    return True
