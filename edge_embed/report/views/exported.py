"""View of a result of `edge-embed export` on the terminal."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from edge_embed.methods import words_of
from edge_embed.methods.words import method_words
from edge_embed.report.results.exported import ExportedTokenizer, ExportReport, Opened
from edge_embed.report.results.table_record import TableRecord
from edge_embed.report.results.widened_bfloat16 import Widened
from edge_embed.report.views.folded_table import FoldedTable

_NAMED = 5
_ID_CHECKS = {
    "error": "ids out of range: an error if the runtime checks indices, as on CPU, WebAssembly, WebGPU and in LiteRT; "
    "else rows of NaN",
    "nan": "ids out of range: rows of NaN, and bags of NaN",
}


def render(report: ExportReport) -> RenderableType:
    """Return the tables, the dimensions and the written files."""
    tables = FoldedTable("table", "method", "shape", "dense bytes", "packed bytes", "ratio", "", title="Embeddings")
    for table in report.tables:
        tables.add_row(*table_cells(table))
    shapes = FoldedTable("tensor", "dynamic", "fixed", title="Dimensions")
    for name, dynamic in report.dynamic.items():
        shapes.add_row(name, ", ".join(dynamic), ", ".join(report.frozen[name]))
    written = [f"wrote {path} ({size:,} bytes)" for path, size in report.files.items()]
    hints = [hint for table in report.tables if (hint := memory_hint(table))]
    tokenizer = [] if report.tokenizer is None else [_tokenizer_words(report.tokenizer)]
    signatures = [f"signature {name}: {_spelled(sizes)}" for name, sizes in report.signatures.items()]
    signatures += ["sizes are fixed; --tflite-size sets other sizes"] if signatures else []
    widened = [widened_words(report.widened)] if report.widened else []
    opened = [line] if (line := opened_words(report.opened)) else []
    checked = [_ID_CHECKS[report.id_check]] if report.id_check else []
    golden = [f"golden pair, {run.way}: {run.status}, {run.words}" for run in report.golden]
    source = map(Text, report.source.lines())  # may hold names from the file
    return Group(
        tables, shapes, *signatures, *hints, *tokenizer, *source, *widened, *checked, *written, *opened, *golden
    )


def table_cells(table: TableRecord) -> list[str]:
    """Return the row of a table."""
    return [
        table.name,
        method_words(table.method, table.embedding_dim, table.settings),
        f"{table.num_embeddings} x {table.embedding_dim}",
        f"{4 * table.num_embeddings * table.embedding_dim:,}",
        "" if table.packed_bytes is None else f"{table.packed_bytes:,}",
        "" if table.compression_ratio is None else f"{table.compression_ratio:.1f}x",
        _remark(table),
    ]


def memory_hint(table: TableRecord) -> str:
    """Return the option that gives the table enough session memory, or an empty text if no more is needed."""
    if not table.needed_bytes:
        return ""
    megabytes = -(-table.needed_bytes >> 20)
    needed = f"{table.needed_bytes:,} bytes per use"
    return f"{table.name}: no faster with this session memory; use --memory-megabytes {megabytes} ({needed})"


def opened_words(opened: Opened) -> str:
    """Return a line about the runtime that opened a file; empty if opening was not requested."""
    if opened.reason:
        return f"not opened: {opened.reason}"
    return f"opened in {opened.runtime}: {', '.join(opened.ways)}" if opened.ways else ""


def widened_words(widened: Widened) -> str:
    """Return a line about the parts that became float32."""
    parts = []
    if widened.weights:
        size = sum(widened.weights.values())
        plural = "s" if len(widened.weights) > 1 else ""
        parts.append(
            f"{len(widened.weights)} weight{plural} ({_listed(widened.weights)}; {size // 2:,} -> {size:,} bytes)"
        )
    if widened.inputs:
        parts.append(f"input{'s' if len(widened.inputs) > 1 else ''} {_listed(widened.inputs)}")
    if widened.calls:
        parts.append(f"{widened.calls} conversion{'s' if widened.calls > 1 else ''} in the model")
    return (
        f"bfloat16 is stored as float32, because CPU runtimes have no bfloat16 kernels: {', '.join(parts)}. For two "
        "bytes per number, call model.half() before saving, if all values are in the range of float16"
    )


def _remark(table: TableRecord) -> str:
    if table.packed_bytes is None:
        return f"not packed: {table.reason}"
    shared = f", used {table.uses} times" if table.uses > 1 else ""
    session = f", up to {table.session_bytes:,} bytes of session memory" if table.session_bytes else ""
    layout = f" as {table.layout}" if table.layout else ""
    added = f" ({table.added_bytes:,} bytes more)" if table.added_bytes > 0 else ""
    zero = ", all rows are zero" if table.is_zero else ""
    return f"lowered{layout}{added}{zero}{shared}{session}{_why_large(table)}"


def _why_large(table: TableRecord) -> str:
    """Return the reason for a table that is hardly smaller than the dense one, and the remedy; else nothing."""
    words = words_of(table.method)
    dense_bytes = 4 * table.num_embeddings * table.embedding_dim
    grew = ["no smaller than dense"] if (table.packed_bytes or 0) >= dense_bytes else []
    reason = words.why_large(table.compression_ratio or 0, table.num_embeddings, table.settings)
    found = [*grew, *([reason] if reason else [])]
    return f", but {', '.join(found)}: {words.smaller}" if found else ""


def _tokenizer_words(tokenizer: ExportedTokenizer) -> str:
    limit = "any length" if tokenizer.max_length is None else f"at most {tokenizer.max_length} ids per text"
    return (
        f"tokenizer: {tokenizer.kind}, {tokenizer.num_ids:,} ids, padding {tokenizer.pad_id}, {limit}; same ids "
        f"as the library tokenizers for all {tokenizer.texts} test texts"
    )


def _spelled(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _listed(names: Mapping[str, int] | tuple[str, ...]) -> str:
    more = len(names) - _NAMED
    return ", ".join(list(names)[:_NAMED]) + (f" and {more} more" if more > 0 else "")
