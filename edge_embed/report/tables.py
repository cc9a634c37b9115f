"""A validation report on the terminal: parity by path, sizes, latency."""

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:  # results.py shows itself by this file
    from edge_embed.report.results import (
        LatencyResult,
        LatencySection,
        ModelResult,
        OutputResult,
        PathResult,
        SizeResult,
        Status,
        TableResult,
        ValidationReport,
    )

_MARKS = {"passed": "[green]✓[/]", "failed": "[bold red]✗[/]", "not run": "[yellow]not run[/]"}


def render(report: "ValidationReport") -> RenderableType:
    """The whole report, top to bottom in the order it was made."""
    return Group(
        *[line(check.status, check.name, check.detail) for check in report.structure],
        *[_table(table) for table in report.tables],
        _model(report.model),
        _sizes(report.sizes, report.tables),
        _latency(report.latency),
        _verdict(report),
    )


def line(status: "Status", name: str, detail: str) -> str:
    """``-[✓] name: detail`` as markup."""
    return f"-\\[{_MARKS[status]}] {escape(name)}" + (f": {escape(detail)}" if detail else "")


def _table(table: "TableResult") -> RenderableType:
    title = f"\n[bold]table {escape(table.name)}[/] ({table.method}, {table.num_embeddings} x {table.embedding_dim})"
    return Group(title, *[line(check.status, check.name, check.detail) for check in (*table.checks, *table.paths)])


def _model(model: "ModelResult") -> RenderableType:
    lines = [f"\n[bold]whole model[/] ({escape('; '.join(model.cases))})"]
    lines += [f"left out: {escape(reason)}" for reason in model.left_out]
    for path in model.paths:
        lines.append(line(path.status, path.name, path.detail))
        lines += [f"    {_output(output)}" for output in path.outputs if _has_news(path, output)]
    return Group(*lines, line(model.kernel.status, model.kernel.name, model.kernel.detail))


def _has_news(path: "PathResult", output: "OutputResult") -> bool:
    return output.max_abs_error is not None or output.status == "failed" or len(path.outputs) > 1


def _output(output: "OutputResult") -> str:
    if output.status == "passed" and output.max_abs_error is not None:
        detail = (
            f"all values close (atol: {output.atol:g}, rtol: {output.rtol:g}); absolute error: "
            f"max {output.max_abs_error:.2g}, mean {output.mean_abs_error:.2g} of {output.values:,} values"
        )
    else:
        detail = output.detail
    return line(output.status, output.name, detail)


def _sizes(sizes: "SizeResult", tables: "tuple[TableResult, ...]") -> RenderableType:
    four = Table("", "bytes", "", title="Sizes", title_justify="left")
    four.columns[1].justify = "right"
    four.add_row("dense equivalent", f"{sizes.dense_equivalent:,}", "with float32 tables")
    four.add_row("on disk", f"{sizes.on_disk:,}", f"{len(sizes.files)} file(s)")
    four.add_row("zipped", f"{sizes.zipped:,}", "deflate")
    resident = "not run" if sizes.resident is None else f"{sizes.resident:,}"
    four.add_row("resident", resident, escape(sizes.resident_reason or "of a session after its first run"))
    for loaded in sizes.loaded:
        library = "with the library" if loaded.library else "without the library"
        four.add_row(f"weights loaded, {loaded.level}", f"{loaded.initializer_bytes:,}", library)
    by_table = Table("table", "dense bytes", "packed bytes", "ratio", title="Tables", title_justify="left")
    for table in tables:
        sides = (f"{table.dense_bytes:,}", f"{table.packed_bytes:,}", f"{table.compression_ratio:.1f}x")
        by_table.add_row(escape(table.name), *sides)
    return Group("", four, by_table)


def _latency(latency: "LatencySection") -> RenderableType:
    title = "Latency: time of the custom op / time of the other (below 1: the custom op is faster)"
    ratios = Table("", "ids a call", "ids", "against", "ratio", "95 %", "µs", title=title, title_justify="left")
    for result in latency.results:
        ratios.add_row(*_latency_cells(result))
    machine = ", ".join(latency.machine.values())
    return Group("", ratios, escape(f"{machine}. {latency.method}"))


def _latency_cells(result: "LatencyResult") -> list[str]:
    ids = "" if result.ids is None else str(result.ids)
    cells = [escape(result.subject), ids, result.distribution, result.peer]
    if result.ratio is None:
        return [*cells, f"[yellow]not run[/]: {escape(result.reason)}", "", ""]
    return [*cells, f"{result.ratio:.2f}", f"{result.low:.2f} - {result.high:.2f}", f"{result.microseconds:.1f}"]


def _verdict(report: "ValidationReport") -> str:
    if not report.passed:
        count = len(report.failures())
        return f"\n[bold red]{count} check(s) failed[/]: the file does not hold what the model holds"
    rest = "" if report.complete else " (some did not run, see above)"
    return f"\n[bold green]all checks that ran passed[/]{rest}"
