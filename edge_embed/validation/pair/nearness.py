"""Rows of a packed table compared with the dense ones of the original and with the report of `compress`."""

from dataclasses import replace

from torch import Tensor

from edge_embed.fitting.dense_table import DenseTable
from edge_embed.fitting.fidelity import fidelity
from edge_embed.fitting.fitted_table import Stored
from edge_embed.packed.manifest import Manifest
from edge_embed.report.results.compressed import CompressedTable
from edge_embed.report.results.fidelity import Fidelity
from edge_embed.report.results.fidelity_promise import Promise, promise_of
from edge_embed.report.results.validation import Check, TableResult
from edge_embed.validation.pair.stored_tables import MANIFEST, manifest_check
from edge_embed.validation.paths import TRAINING

NAME = "rows as compress reported them"
# The numbers are summed in another order, and the report keeps six digits.
_CLOSE = 1e-5
_MOST_SHOWN = 3
_OF_MODELS = ("stored rows", MANIFEST)  # these compare with tables of a model, which here are the file's own


def checked_table(
    result: TableResult, manifest: Manifest, stored: Stored, dense: Tensor, promise: Promise | None
) -> TableResult:
    """Return the result of a table whose rows are compared with the dense ones instead of those of a model."""
    found = fidelity(DenseTable(dense, stored.plain.padding_idx), stored)
    near = nearness_check(found, promise, stored)
    kept = [check for check in result.checks if check.name not in _OF_MODELS]
    paths = [replace(check, name=check.name.replace(TRAINING, "operator of PyTorch")) for check in result.paths]
    checks = (*kept, manifest_check(manifest, result.name, stored), near)
    return replace(result, checks=checks, paths=tuple(paths), fidelity=found)


def nearness_check(found: Fidelity, promise: Promise | None, stored: Stored) -> Check:
    """Check that the fidelity of the rows is the reported one."""
    rows = f"{stored.plain.num_embeddings:,} rows: relative error {found.relative_error:.6g}"
    worst = ", ".join(f"{row} ({cosine:.4f})" for row, cosine in found.worst[:_MOST_SHOWN])
    measured = f"{rows}, mean cosine {found.mean_cosine:.6g}, worst rows {worst or 'none'}"
    if promise is None:
        return Check(NAME, "not run", f"{measured}; the file does not store the report of compress")
    if wrong := _differences(found, promise):
        cause = "the tables differ from those that compress wrote, or from their originals"
        return Check(NAME, "failed", f"{measured}; {wrong}: {cause}")
    return Check(NAME, "passed", measured)


def _differences(found: Fidelity, promise: Promise) -> str:
    got = promise_of(CompressedTable(promise.table, 0, 0, 0, fidelity=found))
    assert got is not None
    pairs = {"mean cosine": (got.mean_cosine, promise.mean_cosine)}
    if promise.relative_error is not None and got.relative_error is not None:
        pairs["relative error"] = (got.relative_error, promise.relative_error)
    ranks = range(max(len(got.worst), len(promise.worst)))
    for at, (one, other) in zip(ranks, zip(got.worst, promise.worst, strict=False), strict=False):
        pairs[f"cosine of worst row {at + 1}" if at else "cosine of the worst row"] = (one[1], other[1])
    wrong = [f"{name}: got {got}, expected {expected} as reported" for name, (got, expected) in pairs.items()
             if not abs(got - expected) <= _CLOSE * max(1.0, abs(expected))]  # fmt: skip
    if len(got.worst) != len(promise.worst):
        wrong.append(f"got {len(got.worst)} worst rows, expected {len(promise.worst)} as reported")
    return "; ".join(wrong[:_MOST_SHOWN])
