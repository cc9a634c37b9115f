"""The same ids through every path of one table, compared bit by bit with the training form."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx

from edge_embed.lowering.graph import METHODS, LoweredProgram
from edge_embed.program.program import Program
from edge_embed.report.results import Check
from edge_embed.validation import ids as random_ids
from edge_embed.validation import paths
from edge_embed.validation.submodel import Submodel
from edge_embed.validation.tables import Table

Ids = NDArray[Any]
Rows = NDArray[np.float32]
GetRows = Callable[[Ids], Rows]

_TRAINED_OPERATORS = {operator for method in METHODS for operator in method.packers}
_PACKED_OPERATORS = {method.operator for method in METHODS}
# The training form compares every id with every code: with 65,536 codes in 64 groups that is 32 MB and half
# a second an id. Such tables get fewer ids, and few of them at once.
_MOST_IDS, _FEWEST_IDS = 4096, 64
_COMPARISONS_IN_ALL = 1 << 26
_COMPARISONS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Case:
    """Some ids, and what they are."""

    name: str
    ids: Ids


def calls_by_table(program: Program, lowered: LoweredProgram) -> dict[str, fx.Node]:
    """For every table one call in the program's own graph that lowering replaced by the packed operator.

    Lowering replaces calls in place and drops those whose result is not used, so both graphs have them in
    the same order.
    """
    original = fx.Graph()
    original.output(original.graph_copy(program.module.graph, {}))
    original.eliminate_dead_code()
    before = [node for node in original.nodes if node.target in _TRAINED_OPERATORS]
    after = [node for node in lowered.program.module.graph.nodes if node.target in _PACKED_OPERATORS]
    return {table_of(new): old for old, new in zip(before, after, strict=True)}


def table_of(node: fx.Node) -> str:
    """The name of the table that a packed operator reads; its tensors are ``<table>.<tensor>``."""
    return str(node.all_input_nodes[1].target).rpartition(".")[0]


def training_rows(program: Program, call: fx.Node, table: Table) -> GetRows:
    """Run one operator of the original program on its own weights, few ids at once."""
    at_once = max(1, _COMPARISONS_AT_ONCE // table.method.comparisons(table.packed))
    _, *arguments = call.args
    values = [program.module.weight(str(item.target)) if isinstance(item, fx.Node) else item for item in arguments]

    @torch.no_grad()
    def run(ids: Ids) -> Rows:
        result: Rows = call.target(torch.from_numpy(ids), *values).numpy()  # type: ignore[operator]
        return result

    def rows(ids: Ids) -> Rows:
        if ids.size <= at_once:
            return run(ids)
        parts = [run(ids.reshape(-1)[at : at + at_once]) for at in range(0, ids.size, at_once)]
        return np.concatenate(parts).reshape(*ids.shape, -1)

    return rows


def make_cases(table: Table, random: np.random.Generator) -> list[Case]:
    """The ids that every path must answer."""
    n = table.packed.num_embeddings
    affordable = _COMPARISONS_IN_ALL // table.method.comparisons(table.packed)
    count = min(max(affordable, _FEWEST_IDS), _MOST_IDS)
    ends = [0, n - 1, n // 2] + ([] if table.packed.padding_idx is None else [table.packed.padding_idx])
    return [
        Case("uniform ids", random_ids.draw(random, "uniform", n, (count // 8, 8))),
        Case("Zipf ids", random_ids.draw(random, "zipf", n, (8, count // 8))),
        Case("uniform int32 ids", random_ids.draw(random, "uniform", n, (_FEWEST_IDS,), np.int32)),
        Case("first, last, middle and padding row", np.array(ends, np.int64)),
        Case("an id of rank 0", random_ids.draw(random, "uniform", n, ())),
        Case("an empty batch", np.zeros((0,), np.int64)),
        Case("an empty batch of sequences", np.zeros((0, 3), np.int64)),
    ]


def refused_ids(table: Table) -> tuple[int, ...]:
    """Ids outside the table; the last would be row 0 for whoever cuts ids to 32 bits."""
    n = table.packed.num_embeddings
    return (-1, n, -n, 2**32)


def compare_paths(
    table: Table,
    trained: GetRows,
    submodel: Submodel | None,
    random: np.random.Generator,
    on_path: Callable[[], None],
) -> tuple[Check, ...]:
    """Run all cases through all paths.

    Args:
        table: the table.
        trained: its training form, which the others are compared with.
        submodel: the table cut out of the exported file, None if it is not in there.
        random: draws the ids.
        on_path: called after each path.
    """
    cases = make_cases(table, random)
    expected = [trained(case.ids) for case in cases]
    openers: dict[str, Callable[[], GetRows]] = {
        paths.TRAINING: lambda: trained,
        paths.ORACLE: lambda: table.packed.rows,
        paths.REFERENCE: lambda: _reference(submodel),
        paths.PORTABLE: lambda: _sessions(submodel, portable=True),
        paths.CUSTOM: lambda: _sessions(submodel, portable=False),
    }
    checks = []
    for name, opener in openers.items():
        checks.append(_check(name, opener, table, cases, expected))
        on_path()
    return tuple(checks)


def _reference(submodel: Submodel | None) -> GetRows:
    evaluators = {dtype: paths.open_reference(path) for dtype, path in _files(submodel).items()}

    def rows(ids: Ids) -> Rows:
        found: list[Any] = evaluators[ids.dtype].run(None, {"ids": ids})  # type: ignore[assignment]
        return np.asarray(found[0])

    return rows


def _sessions(submodel: Submodel | None, portable: bool) -> GetRows:
    sessions = {dtype: paths.open_session(path, portable) for dtype, path in _files(submodel).items()}

    def rows(ids: Ids) -> Rows:
        return np.asarray(sessions[ids.dtype].run(None, {"ids": ids})[0])

    return rows


def _files(submodel: Submodel | None) -> dict[np.dtype[np.signedinteger], Path]:
    if submodel is None:
        raise paths.NotRunError("the table, its node or its portable body is not in the file as it should be")
    return submodel.paths


def _check(name: str, opener: Callable[[], GetRows], table: Table, cases: list[Case], expected: list[Rows]) -> Check:
    try:
        rows = opener()
    except paths.NotRunError as error:
        return Check(name, "not run", str(error))
    except Exception as error:  # whatever a runtime raises, the path does not run
        return Check(name, "failed", f"cannot be opened: {paths.one_line(error)}")
    for case, wanted in zip(cases, expected, strict=True) if name != paths.TRAINING else ():
        try:
            problem = _difference(table, case, rows(case.ids), wanted)
        except Exception as error:
            problem = f"does not run: {paths.one_line(error)}"
        if problem:
            return Check(name, "failed", f"{case.name}: {problem}")
    for wrong in refused_ids(table):
        if _accepts(rows, wrong):
            bound = f"expected an error, ids are 0 to {table.packed.num_embeddings - 1}"
            return Check(name, "failed", f"id {wrong} gives a row, {bound}")
    count = sum(case.ids.size for case in cases)
    relation = "the reference" if name == paths.TRAINING else "bit-identical"
    return Check(name, "passed", f"{relation} for {count:,} ids in {len(cases)} cases; refuses ids out of range")


def _difference(table: Table, case: Case, got: Rows, expected: Rows) -> str:
    """The first bit that differs, in words, or empty."""
    if (got.dtype, got.shape) != (expected.dtype, expected.shape):
        return f"got {got.dtype} {list(got.shape)}, expected {expected.dtype} {list(expected.shape)}"
    differ = np.flatnonzero(_bits(got) != _bits(expected))
    if not differ.size:
        return ""
    position, column = divmod(int(differ[0]), expected.shape[-1])
    row = int(case.ids.reshape(-1)[position])
    values = [rows.reshape(-1, rows.shape[-1])[position, column] for rows in (got, expected)]
    return f"row {row}, {table.method.column(table.packed, column)}: got {values[0]}, expected {values[1]}"


def _bits(rows: Rows) -> NDArray[np.uint32]:
    """Not numbers but bits: -0.0 is not 0.0."""
    return np.ascontiguousarray(rows).view(np.uint32).reshape(-1)


def _accepts(rows: GetRows, wrong: int) -> bool:
    try:
        rows(np.array([0, wrong], np.int64))
    except Exception:  # each path has its own type of error
        return False
    return True
