"""A model with compressed tables in place of dense ones: a module, or a saved program."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import nn

from edge_embed.compression.job import Job
from edge_embed.compression.modules import model_tables, replaced
from edge_embed.compression.packed_nodes import with_packed
from edge_embed.errors import BadInputError, SizeError
from edge_embed.fitting.fitted_table import Fitted, Stored
from edge_embed.fitting.found_table import FoundTable
from edge_embed.lowering.dense_tables import UsedTables, program_tables
from edge_embed.lowering.graph import CALLS
from edge_embed.lowering.table_names import owner_of
from edge_embed.methods import words_of
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.program.program import Program
from edge_embed.report.results.compressed import CompressReport
from edge_embed.report.results.shown import shown_by_report

_LARGEST = 3  # linear layers that a message names


@shown_by_report
class CompressedModule(NamedTuple):
    """A copy of a module, and the report about its tables."""

    model: nn.Module
    report: CompressReport


@shown_by_report
class CompressedProgram(NamedTuple):
    """A copy of a program, and the report about its tables."""

    model: Program
    report: CompressReport


@shown_by_report
class CompressedFile(NamedTuple):
    """A file for a runtime, and the report about the tables of the file it was made from."""

    model: Path
    report: CompressReport


def compress_module(model: nn.Module, job: Job) -> CompressedModule:
    """Replace layers in a copy of a module."""
    found = model_tables(model)
    numbers = sum(parameter.numel() for parameter in model.parameters())
    tables = job.chosen(found, numbers, without=_without_lookups(found))
    made_of, reports = job.run(tables)
    made = {table: made_of[table.name] for table in tables if table.name in made_of}
    small = replaced(model, made)
    _let_transformers_save(small, job.plan.trainable)
    return CompressedModule(small, CompressReport(reports, _nbytes(model)))


def _let_transformers_save(model: nn.Module, trainable: bool) -> None:
    """Attach the quantiser that ``save_pretrained`` requires, or declare the ties of trainable layers."""
    if "transformers.modeling_utils" not in sys.modules:  # no class of a model is loaded
        return
    from transformers import PreTrainedModel  # noqa: PLC0415

    from edge_embed.transformers.quantizer import attach_quantizer  # noqa: PLC0415
    from edge_embed.transformers.ties import tie_layers  # noqa: PLC0415

    if not isinstance(model, PreTrainedModel):
        return
    if trainable:
        tie_layers(model)
    elif getattr(model, "hf_quantizer", None) is None:
        with suppress(BadInputError):  # layers that a folder of transformers cannot have, such as bags
            attach_quantizer(model)


def tables_of(program: Program, job: Job) -> list[FoundTable]:
    """Return the tables of a program to report, each with a reason unless it is to be compressed."""
    tables = program_tables(program, job.names)
    _check_left(program, tables, job)
    words = {} if any(table.looks_up for table in tables) else {"without": UsedTables(program).largest()}
    return job.chosen(tables, program.numbers, **words)


def compress_program(
    program: Program, tables: Sequence[FoundTable], job: Job
) -> tuple[CompressedProgram, dict[str, Fitted]]:
    """Replace nodes in a copy of a program; the replacements of its tables are also returned by name."""
    found, reports = job.run(tables)
    rotates = {table.name: table.rotates for table in tables}
    stored = {name: fitted.stored(rotates[name]) for name, fitted in found.items()}
    small = with_packed(program, stored)
    before, after = _nbytes(program.module), _nbytes(small.module)
    if after >= before:  # tables that stay are stored in place of the weights they are computed from
        left = [f"{each.name} ({each.reason})" for each in reports if each.reason]
        remedy = f"name also the tables that share these weights: {'; '.join(left)}" if left else "use smaller sizes"
        raise SizeError(
            f"{', '.join(stored)}: the compressed model requires {after:,} bytes, expected fewer than the {before:,} "
            f"of the model: {remedy}"
        )
    report = CompressReport(reports, before, after, source=program.facts)
    return CompressedProgram(small, report), found


def with_placeholders(program: Program, tables: Iterable[FoundTable]) -> Program:
    """Return a copy of a program that looks up rows of zeros by operators of tables, in place of dense tables."""
    return with_packed(program, {table.name: Stored(_zeros(table)) for table in tables})


def _zeros(table: FoundTable) -> PackedDPQ:
    n, dim = table.weight.shape
    return PackedDPQ.from_codes(np.zeros((n, 1), np.int64), np.zeros((1, 2, dim), np.float32), table.padding_idx)


def _without_lookups(tables: Iterable[FoundTable]) -> str:
    """Return the sentence that names the linear layers of a module without `nn.Embedding`."""
    linear = sorted((table for table in tables if not table.reason), key=lambda table: -table.weight.numel())
    names = ", ".join(repr(table.name) for table in linear[:_LARGEST]) or "none"
    return (
        "it has no nn.Embedding or nn.EmbeddingBag; for other lookups, edge_embed.save the model and compress the "
        f"file. An nn.Linear is compressed only by name; the largest are: {names}"
    )


def _check_left(program: Program, tables: Iterable[FoundTable], job: Job) -> None:
    """Refuse a model in which every table is already compressed."""
    if any(table.looks_up or table.name in job.names for table in tables):
        return
    weights = [node for node in program.module.graph.nodes if node.op == "get_attr"]
    found = {
        owner_of(str(weight.target)): words_of(CALLS[user.target].method.name).kind
        for weight in weights
        for user in weight.users
        if user.target in CALLS
    }
    if found:
        shown = "; ".join(f"{name} is already {kind}" for name, kind in found.items())
        outputs = [f"--module {table.name}" for table in tables if table.is_output and not table.reason]
        others = f", or compress its output layer too: {', '.join(outputs)}" if outputs else ""
        raise BadInputError(
            f"the model has no table to compress: {shown}: export the model as it is (`edge-embed export`){others}"
        )


def _nbytes(model: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
