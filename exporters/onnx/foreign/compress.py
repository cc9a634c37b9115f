"""Compresses the dense tables of an ONNX file in place."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from edge_embed.compression.found import chosen
from edge_embed.compression.kept import Kept
from edge_embed.compression.plan import Plan, Progress, compress_tables
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.foreign.opset import raise_opset
from edge_embed.exporters.onnx.foreign.read import ForeignModel, damaged, read_foreign
from edge_embed.exporters.onnx.foreign.replace import replace_tables
from edge_embed.exporters.onnx.foreign.tables import OnnxTable, dense_tables, with_weight
from edge_embed.exporters.onnx.foreign.write import write_foreign
from edge_embed.exporters.onnx.storage import weights_file
from edge_embed.files import check_output
from edge_embed.lowering.compress import CompressedFile
from edge_embed.report.compressed import CompressedTable, CompressReport


def compress_onnx(
    path: Path,
    plan: Plan,
    names: Collection[str],
    counts: Mapping[str, Tensor],
    kept: Kept,
    progress: Progress,
    output: Path,
    force: bool = False,
) -> CompressedFile:
    """Write an ONNX file with packed tables in the place of dense ones; all else in it stays as it was.

    Its operator set is raised to 18 where it is lower.

    Args:
        path: an ONNX file of any tool; external data lies beside it.
        plan: what is wanted.
        names: of the tables that are wanted, with ``.weight`` as the file has it or without; by default all that hold a
            twentieth of the model.
        counts: how often each row comes up, by the name of a table.
        kept: finished parts of the work.
        progress: called with (step, done, in all).
        output: the file to write.
        force: overwrite existing files.

    Raises:
        BadInputError: if the file is damaged, its operator set cannot be raised, or no table can be replaced.
        SizeError: as of `edge_embed.compression.plan.compress_tables`.
        ParityError: as there.
        OutputError: if the files cannot be written; nothing partial is left.
    """
    if plan.trainable:
        raise BadInputError("trainable: an ONNX file does not learn: give the module")
    file = read_foreign(path)
    check_output([output, weights_file(output)], file.files, force)
    reports = compress_foreign(file, plan, names, counts, kept, progress)
    written = write_foreign(file, output, force)
    sizes = (sum(part.stat().st_size for part in files) for files in (file.files, written))
    return CompressedFile(output, CompressReport(reports, *sizes))


def compress_foreign(
    file: ForeignModel,
    plan: Plan,
    names: Collection[str],
    counts: Mapping[str, Tensor],
    kept: Kept,
    progress: Progress,
) -> tuple[CompressedTable, ...]:
    """Change a model that was read, without writing it; arguments and errors as of `compress_onnx`."""
    with damaged(file.path):
        raise_opset(file)
        tables = _wanted(file, names)
    layers, reports = compress_tables(tables, _by_table(tables, counts), plan, kept, progress)
    with damaged(file.path):
        made = {table: layers[table.name].to_packed() for table in tables if table.name in layers}
        replace_tables(file.model, file.opset, made)
    return reports


def _wanted(file: ForeignModel, names: Collection[str]) -> list[OnnxTable]:
    """The tables of the report, weights read of those that need not stay."""
    found = dense_tables(file)
    called = {table.constant: table.name for table in found}
    wanted = chosen(found, [called.get(name, name) for name in names], file.numbers)
    return [table if table.reason else replace(table, weight=with_weight(file, table)) for table in wanted]


def _by_table(tables: Collection[OnnxTable], counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    if not isinstance(counts, Mapping):
        return counts  # refused with the reason
    called = {table.constant: table.name for table in tables}
    return {called.get(name, name): numbers for name, numbers in counts.items()}
