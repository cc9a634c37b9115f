"""Views of reports as text: tables on a terminal, plain columns elsewhere."""

import os
import sys
from collections.abc import Mapping
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from edge_embed.inspection.doctor import DoctorReport
from edge_embed.inspection.report import FileReport, OnnxInfo, PortInfo, TableInfo, TfliteInfo, TorchSaveInfo
from edge_embed.methods import words_of
from edge_embed.methods.words import method_words
from edge_embed.report.views.folded_table import stacked

_KINDS = {
    "program": "saved program",
    "torch_save": "torch.save file",
    "packed": "packed tables",
    "onnx": "ONNX model",
    "ort": "model in ORT format",
    "tflite": "TFLite model",
    "vectors": "word vectors",
    "transformers": "transformers model",
}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_MOST_NAMES = 20
_UNBROKEN = 1 << 16


def render_file(report: FileReport, console: Console) -> None:
    """Print the content of a file."""
    console = _plain(console)
    size = _size(report.file_bytes)
    if report.total_bytes != report.file_bytes:
        size += f", {_size(report.total_bytes)} with its external data"
    _line(console, f"{report.path}: {_KINDS[report.kind]}, {size}", "bold")
    if report.tables:
        _print(console, _compressed(report))
    if report.dense:
        _print(console, _dense(report))
    if report.tables or report.dense:
        _line(console, f"the rest: {_size(report.other_bytes)} ({report.other_bytes / report.total_bytes:.1%})")
    for title, ports in (("inputs", report.inputs), ("outputs", report.outputs)):
        if ports:
            _line(console, f"{title}: {', '.join(map(_port, ports))}")
    if report.vocabulary_size is not None:
        _line(console, f"vocabulary: {report.vocabulary_size:,} tokens")
    _tokenizer(console, report.tokenizer)
    for key, value in report.metadata.items():
        _line(console, f"{key:.40}: {value:.200}")
    _details(console, report)
    for line in report.source.lines():
        _line(console, line)
    for texts, prefix, style in (
        (report.notes, "note", ""),
        (report.warnings, "warning", "yellow"),
        (report.differences, "DIFFERS", "red"),
    ):
        for text in texts:
            _line(console, f"{prefix}: {text}", style)


def render_doctor(report: DoctorReport, console: Console) -> None:
    """Print the state of the installation."""
    console = _plain(console)
    table = _table("", "")
    for name, version in report.versions.items():
        table.add_row(name, _safe(version or "missing"))
    _print(console, table)
    _line(console, f"system: {report.system}")
    features = report.cpu_features
    _line(console, f"cpu features: {'unknown' if features is None else ', '.join(features) or 'none'}")
    library = report.library
    if library is not None:
        not_run = "DOES NOT RUN" if report.providers else "not run: ONNX Runtime is missing"
        state = "registers and runs" if library.runs else not_run
        _line(console, f"operator library: {library.path}")
        size = f"{_size(library.bytes)} of at most {_size(library.most_bytes)}"
        _line(console, f"  version {library.version}, {size}, {state}")
        _line(console, f"  kernels: {', '.join(library.kernels)} of {', '.join(library.methods)}")
        others = ", ".join(name if runs else f"{name} (not on this processor)" for name, runs in library.isas.items())
        _line(console, f"  instruction set: {library.isa}, of {others}")
    else:
        _line(console, "operator library: none that can be used")
    training = report.training
    if training.lack is None:
        _line(console, f"training library: {training.path}")
        _line(console, f"  instruction set: {training.isa}")
    else:
        _line(console, "training library: none; training is slower without it")
        _line(console, f"  {training.lack.what}: {training.lack.remedy}")
    _line(console, f"exported files: opset {report.opset or '?'}, IR version {report.ir_version or '?'}")
    _line(console, f"execution providers: {', '.join(report.providers) or 'none'}")
    _line(console, f"targets of validate:{'' if report.targets else ' none, install edge-embed[export]'}")
    for target in report.targets:
        state = "; ".join(f"{lack.what}: {lack.remedy}" for lack in target.lacks) or f"ready, {target.evidence}"
        _line(console, f"  {target.name} ({target.what}): {state}")
    _line(console, "extras:")
    for extra in report.extras:
        state = "installed" if not extra.lacks else f"{', '.join(extra.lacks)} missing: {extra.command}"
        _line(console, f"  {extra.name} ({extra.purpose}): {state}")
    for problem in report.problems:
        _line(console, f"problem: {problem.what}", "red")
        _line(console, f"  remedy: {problem.remedy}")
    if report.ok:
        _line(console, "all well", "green")


def _compressed(report: FileReport) -> Table:
    table = _table("table", "method", "shape", "layout", ">ratio", "at inference", ">in file", "hash")
    for entry in report.tables:
        table.add_row(
            _safe(entry.name),
            f"{method_words(entry.method, entry.embedding_dim, entry.attributes)} {entry.state}",
            f"{entry.num_embeddings:,} x {entry.embedding_dim}",
            _layout(entry),
            f"{entry.compression_ratio:.1f}x",
            _parts(entry),
            f"{_size(entry.stored_bytes)} ({entry.share:.1%})",
            Text(entry.hash_status, "red" if entry.hash_status in ("DIFFERS", "no hash") else ""),
        )
    return table


def _parts(entry: TableInfo) -> str:
    """Return bytes of the tensors that select (codes, transform), and of values, anchors or cores."""
    method = words_of(entry.method)
    made_of = sum(nbytes for tensor, nbytes in entry.inference_bytes.items() if tensor.startswith(method.begin))
    selects = entry.total_inference_bytes - made_of
    session = f", session memory up to {_size(entry.session_bytes)}" if entry.session_bytes else ""
    return (f"{method.selects} {_size(selects)} + " if selects else "") + f"{method.made_of} {_size(made_of)}{session}"


def _dense(report: FileReport) -> Table:
    table = _table("dense table", "shape", "type", ">in file")
    for entry in report.dense:
        shape = f"{entry.num_embeddings:,} x {entry.embedding_dim}"
        in_file = f"{_size(entry.stored_bytes)} ({entry.share:.1%})"
        table.add_row(_safe(entry.name), shape, entry.dtype, in_file)
    return table


def _onnx(console: Console, info: OnnxInfo) -> None:
    opsets = ", ".join(f"{domain} {version}" for domain, version in info.opsets.items())
    _line(console, f"IR version {info.ir_version}, operators {opsets}, format {info.format_version or '-'}")
    for operator in info.operators:
        body = "with" if operator.body else "WITHOUT"
        _line(console, f"{operator.op_type}: nodes: {operator.nodes}, {body} portable body")
    for file in info.data_files:
        aligned = f"aligned to {file.alignment} bytes"
        _line(console, f"external data {file.name}: {_size(file.bytes)}, {file.tensors} tensors, {aligned}")


def _details(console: Console, report: FileReport) -> None:
    """Print the facts that only files of this kind have."""
    if report.onnx is not None:
        _onnx(console, report.onnx)
    if report.tflite is not None:
        _tflite(console, report.tflite)
    if report.torch_save is not None:
        _torch_save(console, report.torch_save)


def _tflite(console: Console, info: TfliteInfo) -> None:
    _line(console, f"operators: {', '.join(f'{count} x {name}' for name, count in info.operators.items())}")
    for name, layout in info.layouts.items():
        _line(console, f"table {name:.80}: layout {layout:.20}")
    for name, ports in info.signatures.items() if len(info.signatures) > 1 else ():
        _line(console, f"signature {name:.80}: {', '.join(map(_port, ports))}")


def _tokenizer(console: Console, about: Mapping[str, Any] | None) -> None:
    if about is not None:
        shown = ", ".join(f"{key} {about.get(key)}" for key in ("kind", "num_ids", "pad_id", "max_length", "sha256"))
        _line(console, f"tokenizer: {shown:.200}")


def _torch_save(console: Console, info: TorchSaveInfo) -> None:
    if info.tensor_bytes is not None:
        _line(console, f"tensors: {_size(info.tensor_bytes)}")
    more = f", and {len(info.names) - _MOST_NAMES} more" if len(info.names) > _MOST_NAMES else ""
    names = ", ".join(f"{name:.80}" for name in info.names[:_MOST_NAMES])
    _line(console, f"loading it would import: {names}{more}")


def _layout(entry: TableInfo) -> str:
    narrow = " int8" if entry.value_type == "int8" else ""
    padding = "" if entry.padding_idx is None else f", pad {entry.padding_idx}"
    return words_of(entry.method).layout(entry.attributes) + narrow + padding


def _port(port: PortInfo) -> str:
    sizes = "" if port.shape is None else f"[{', '.join('?' if size is None else str(size) for size in port.shape)}]"
    return f"{port.name} {port.dtype}{sizes}".strip()


def _size(nbytes: int) -> str:
    """Return ``1,536 B`` up to 10,000 bytes, then ``96.0 KiB``; small numbers stay exact."""
    value, unit = float(nbytes), 0
    while value >= 10_000 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{nbytes:,} B" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"


def _table(*titles: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=any(titles), caption_justify="left")
    for title in titles:
        _column(table, title)
    return table


def _column(table: Table, title: str) -> None:
    """Add a column; a title that begins with ``>`` is that of a column of numbers, aligned right."""
    justify: Literal["right", "left"] = "right" if title.startswith(">") else "left"
    table.add_column(title.removeprefix(">"), justify=justify, overflow="fold")


def _plain(console: Console) -> Console:
    """Return the console if it has a width (terminal, page, COLUMNS); for pipes, one that breaks no line."""
    asked_for = "COLUMNS" in os.environ and console.file is sys.stdout
    has_width = console.is_terminal or console.record or asked_for
    return console if has_width else Console(file=console.file, width=_UNBROKEN, force_jupyter=False)


def _print(console: Console, table: Table) -> None:
    """Print a table if it fits into the width; else print its rows stacked, because columns would break words."""
    if not console.is_terminal:
        table.box = None
    if Measurement.get(console, console.options.update(width=_UNBROKEN), table).maximum <= console.width:
        console.print(table)
        return
    for part in stacked(table):
        console.print(part)


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(_safe(text, style))


def _safe(text: str, style: str = "") -> Text:
    """Return text from a file, with characters replaced that could control a terminal."""
    return Text("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text), style)
