"""View of a validation report on the terminal: parity by path, sizes, latency, targets."""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from edge_embed.report.results.byte_parts import FILE_PARTS, SizePart
from edge_embed.report.results.validation import (
    Check,
    LatencyResult,
    LatencySection,
    ModelResult,
    OutputChange,
    SizeResult,
    TableResult,
    ValidationReport,
)
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.targets import target_table
from edge_embed.report.views.text_predictions import text_table
from edge_embed.report.views.words import Line, cell, folded_lines, line, plain

MEMORY_TITLE = "Memory of a session: growth of a fresh process in bytes"
MEMORY_COLUMNS = ("session", "private, opened", "private, first call", "resident, opened", "resident, first call")
CHANGE_TITLE = "Effect of compression: compressed file beside the original (informational)"
CHANGE_COLUMNS = ("output", "relative error", "cosine", "top-1 agreement", "KL divergence", "equal values")
_LATENCY_TITLE = "Latency: time of the operator or TFLite lookup / time of the peer (below 1: faster), 95 % interval"


def render(report: ValidationReport, verbose: bool = False) -> RenderableType:
    """Return the verdict, the whole report in the order it was made, and the verdict again at the end.

    Passed checks are counted, and listed with ``verbose``.
    """
    return Group(
        _verdict(report),
        "",
        *_checks(report.structure, verbose),
        *[_table(table, verbose) for table in report.tables],
        _model(report.model, verbose),
        *([_changes(report.model.changes)] if report.model.changes else []),
        *([Group("", text_table(report.model.texts))] if report.model.texts else []),
        _sizes(report.sizes, report.tables),
        _latency(report.latency),
        *([target_table(report.targets)] if report.targets else []),
        "",
        _verdict(report),
    )


def _checks(checks: Iterable[Check], verbose: bool) -> list[RenderableType]:
    return [*folded_lines([(check.status, check.name, check.detail, "") for check in checks], verbose)]


def _title(bold: str, rest: str) -> Text:
    return Text.assemble("\n", (plain(bold), "bold"), plain(f" ({rest})"))


def _table(table: TableResult, verbose: bool) -> RenderableType:
    title = _title(f"table {table.name}", f"{table.method_words}, {table.num_embeddings:,} x {table.embedding_dim}")
    return Group(title, *_checks((*table.checks, *table.paths), verbose))


def _model(model: ModelResult, verbose: bool) -> RenderableType:
    found: list[Line] = []
    for path in model.paths:
        if len(path.outputs) == 1:
            found.append((path.status, path.name, path.outputs[0].detail, ""))
            continue
        found.append((path.status, path.name, "" if path.outputs else path.detail, ""))
        found += [(output.status, output.name, output.detail, "    ") for output in path.outputs]
    found.append((model.kernel.status, model.kernel.name, model.kernel.detail, ""))
    title = _title("whole model", "; ".join(model.cases))
    left_out = [cell(f"left out, because the model itself does not run: {reason}") for reason in model.left_out]
    return Group(title, *left_out, *folded_lines(found, verbose))


def _changes(changes: tuple[OutputChange, ...]) -> RenderableType:
    table = FoldedTable(*CHANGE_COLUMNS, title=CHANGE_TITLE, title_justify="left")
    for change in changes:
        table.add_row(cell(change.name), *change.figures())
    return Group("", table)


def _sizes(sizes: SizeResult, tables: tuple[TableResult, ...]) -> RenderableType:
    total = FoldedTable("", "bytes", "", title="Sizes", title_justify="left")
    total.columns[1].justify = "right"
    total.add_row("dense equivalent", f"{sizes.dense_equivalent:,}", "the files with dense float32 tables")
    total.add_row("on disk", f"{sizes.on_disk:,}", f"{len(sizes.files)} file(s)")
    total.add_row("zipped", f"{sizes.zipped:,}", "deflate")
    if sizes.original is not None:
        total.add_row("original", f"{sizes.original.on_disk:,}", f"on disk; zipped {sizes.original.zipped:,}")
        if sizes.original.resident is not None:
            total.add_row("original, resident", f"{sizes.original.resident:,}", "")
    resident = "" if sizes.resident is None else f"{sizes.resident:,}"
    total.add_row("resident", resident, cell(sizes.resident_reason or "memory growth by session and first run"))
    total.add_row("weights in the file", f"{sizes.initializer_bytes:,}", f"tables: {sizes.packed_bytes:,}")
    for library in (True, False):
        held = [loaded.initializer_bytes for loaded in sizes.loaded if loaded.library == library]
        side = "with the library" if library else "without the library"
        if held:
            total.add_row("weights in a session", f"{max(held):,}", f"{side}, max over {len(held)} optimisation levels")
    if sizes.session_bytes:
        total.add_row("session memory", f"{sizes.session_bytes:,}", "at most, with the library")
    by_table = FoldedTable("table", "dense bytes", "packed bytes", "ratio", title="Tables", title_justify="left")
    for table in tables:
        numbers = (f"{table.dense_bytes:,}", f"{table.packed_bytes:,}", f"{table.compression_ratio:.1f}x")
        by_table.add_row(cell(table.name), *numbers)
    return Group("", total, *_memory(sizes), by_table, _parts(sizes.parts))


def _memory(sizes: SizeResult) -> Iterator[FoldedTable]:
    if not sizes.memory:
        return
    shown = FoldedTable(*MEMORY_COLUMNS, title=MEMORY_TITLE, title_justify="left")
    for column in shown.columns[1:]:
        column.justify = "right"
    for growth in sizes.memory:
        shown.add_row(growth.path, *growth.figures())
    yield shown


def _parts(parts: Iterable[SizePart]) -> FoldedTable:
    shown = FoldedTable("part", "bytes", "", title="Parts of the files", title_justify="left")
    shown.columns[1].justify = "right"
    for part in parts:
        remark = f"table {part.table}" if part.table is not None else FILE_PARTS[part.name]
        shown.add_row(Text(plain(part.name)), f"{part.bytes:,}", Text(plain(remark)))
    return shown


def _latency(latency: LatencySection) -> RenderableType:
    peers = list(dict.fromkeys(result.peer for result in latency.results if result.ratio is not None))
    columns = [Column(peer, overflow="fold") for peer in peers]
    ratios = FoldedTable("", "ids per call", "ids", "µs", *columns, title=_LATENCY_TITLE, title_justify="left")
    rows: dict[tuple[str, int | None, str], dict[str, LatencyResult]] = {}
    for result in latency.results:
        if result.ratio is not None:
            rows.setdefault((result.subject, result.ids, result.distribution), {})[result.peer] = result
    for (subject, ids, distribution), found in rows.items():
        microseconds = next(iter(found.values())).microseconds
        cells = [_ratio(found.get(peer)) for peer in peers]
        ratios.add_row(
            cell(subject), "" if ids is None else f"{ids:,}", cell(distribution), f"{microseconds:.1f}", *cells
        )
    reasons = dict.fromkeys(
        (result.subject, result.peer, result.reason) for result in latency.results if result.ratio is None
    )
    skipped = [line("not run", f"latency of {subject} against {peer}", reason) for subject, peer, reason in reasons]
    machine = cell(f"{', '.join(latency.machine.values())}. {latency.method}")
    measured: list[RenderableType] = [ratios, machine] if rows else []
    return Group("", *measured, *skipped)


def _ratio(result: LatencyResult | None) -> str:
    return "" if result is None else f"{result.ratio:.2f} ({result.low:.2f} to {result.high:.2f})"


def _verdict(report: ValidationReport) -> Text:
    if not report.passed:
        count = len(report.failures())
        cause = f"\n{plain(report.cause)}" if report.cause else ""
        return Text(f"{count} check(s) failed: the file differs from the model{cause}", "bold red")
    rest = "" if report.complete else "; some did not run, for the reasons above"
    return Text(f"all checks that ran passed{rest}", "bold green")
