"""Findings on sizes. Bytes in files are exact: one byte above the budget fails. Resident memory is measured."""

from collections.abc import Iterator, Mapping

from edge_embed.gate.baseline import Baseline
from edge_embed.gate.budget import SizeBudget
from edge_embed.gate.quantities import Growth
from edge_embed.report.results.byte_parts import LIBRARY, by_name, by_table
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.validation import SizeResult, Status

# Resident memory of fresh processes with one model varies with the pages that allocator and loader touch: by up to 64
# KiB on one machine, and by more between machines.
RESIDENT_TOLERANCE = 1 << 20


def size_findings(budget: SizeBudget, sizes: SizeResult) -> Iterator[Finding]:
    """Yield findings of the size limits of a budget, including each named table or part that the file lacks."""
    tables, parts = by_table(sizes.parts), by_name(sizes.parts)
    for name, got, limit in (("on disk", sizes.on_disk, budget.on_disk), ("zipped", sizes.zipped, budget.zipped)):
        if limit is not None:
            yield _finding(name, got, limit, "", name.replace(" ", "_"))
    for table, limit in budget.tables.items():
        yield _named("table", table, tables, limit)
    for part, limit in budget.parts.items():
        if part != LIBRARY:
            yield _named("part", part, parts, limit)
        elif sizes.library is None:
            yield Finding("size", "part library", "not run", "the operator library is missing", None, limit, "bytes")
        else:
            yield _finding("part library", sizes.library, limit, "", "parts.library")
    if budget.resident is not None:
        yield _resident(budget.resident, sizes)


def growth_findings(growth: Growth, sizes: SizeResult, baseline: Baseline) -> Iterator[Finding]:
    """Yield findings on growth since the baseline: the files, each table and each part."""
    before = {"on disk": baseline.on_disk, **_details(baseline)}
    now = {"on disk": sizes.on_disk, **_details(sizes)}
    for name, size in now.items():
        then = before.get(name, 0)
        remark = f" ({size - then:+,} since the baseline of {then:,})"
        yield _finding(f"growth of {name}", size, growth.limit(then), remark, "growth")


def zipped_growth(growth: Growth, sizes: SizeResult, baseline: Baseline, zlib: str) -> Finding:
    """Return the finding on growth of the zipped size, which is exact only for one version of zlib."""
    name, limit = "growth of zipped", growth.limit(baseline.zipped)
    if baseline.zlib != zlib:
        reason = f"got zlib {zlib}, expected zlib {baseline.zlib:.40} of the baseline; create the baseline again here"
        return Finding("size", name, "not run", reason, None, limit, "bytes")
    remark = f" ({sizes.zipped - baseline.zipped:+,} since the baseline of {baseline.zipped:,})"
    return _finding(name, sizes.zipped, limit, remark, "zipped_growth")


def grown(sizes: SizeResult, baseline: Baseline) -> dict[str, int]:
    """Return bytes now less bytes in the baseline, by name; a removed part is negative."""
    now = {"on disk": sizes.on_disk, "zipped": sizes.zipped} | {part.title: part.bytes for part in sizes.parts}
    then = {"on disk": baseline.on_disk, "zipped": baseline.zipped}
    then |= {part.title: part.bytes for part in baseline.parts}
    return {name: now.get(name, 0) - then.get(name, 0) for name in now | then}


def _details(of: SizeResult | Baseline) -> dict[str, int]:
    """Return tables and parts by name, without padding, which counts only for the whole file."""
    tables = {f"table {table}": size for table, size in by_table(of.parts).items()}
    return tables | {f"part {part.title}": part.bytes for part in of.parts if part.name != "padding"}


def _named(what: str, name: str, sizes: Mapping[str, int], limit: int) -> Finding:
    if name in sizes:
        return _finding(f"{what} {name}", sizes[name], limit, "", f"{what}s.{name}")
    known = ", ".join(sizes) or "none"
    remedy = f"compress it again, or change size.{what}s in the budget"
    detail = f"the file has no {what} {name!r:.80}, expected one of {known}; {remedy}"
    return Finding("size", f"{what} {name}", "failed", detail, None, limit, "bytes")


def _finding(name: str, got: int, limit: int, remark: str, key: str) -> Finding:
    status: Status = "failed" if got > limit else "passed"
    than = f"more than {limit:,} (size.{key})" if status == "failed" else f"at most {limit:,}"
    return Finding("size", name, status, f"{got:,} bytes{remark}, {than}", got, limit, "bytes")


def _resident(limit: int, sizes: SizeResult) -> Finding:
    if sizes.resident is None:
        return Finding("size", "resident", "not run", sizes.resident_reason, None, limit, "bytes")
    remark = f" with a tolerance of {RESIDENT_TOLERANCE:,}"
    return _finding("resident", sizes.resident, limit + RESIDENT_TOLERANCE, remark, "resident")
