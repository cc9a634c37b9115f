"""Export of a lowered program to one ONNX file: custom nodes, and their bodies as functions of the same name.

A runtime with the operator library runs its kernel; any other runs the body. Nothing in the file depends on the
machine, the folder or the time: the same model gives the same bytes.
"""

import contextlib
import io
import logging
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from edge_embed.errors import BadInputError
from edge_embed.exporters.exported import ExportedFile, OnWritten, check_tables, keep_unopened, metadata_of
from edge_embed.exporters.onnx import entmax, recurrent
from edge_embed.exporters.onnx.bodies import OPERATORS, needed_bodies
from edge_embed.exporters.onnx.dense_bag import DENSE_BAGS
from edge_embed.exporters.onnx.dimensions import dimensions_of, rename_dimensions, values_of
from edge_embed.exporters.onnx.id_check import CHECKED_USES, checked, dense_lookups
from edge_embed.exporters.onnx.method import OnnxOperator
from edge_embed.exporters.onnx.names import (
    DOMAIN,
    DOMAIN_VERSION,
    IR_VERSION,
    MEMORY_BYTES,
    OPSET,
)
from edge_embed.exporters.onnx.nodes.entmax import ACTIVATIONS
from edge_embed.exporters.onnx.session_memory.method import least_session_bytes, memory_uses, session_bytes
from edge_embed.exporters.onnx.storage import (
    ExternalData,
    goes_external,
    new_model,
    weights_file,
    write_model,
)
from edge_embed.exporters.onnx.tokenizer.fuse import FusedTokenizer, fuse_tokenizer
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.lowering.id_check import IdCheck
from edge_embed.packed.packed_form import Use
from edge_embed.packed.sizes import MAX_SIZE, check_count
from edge_embed.packed.stored_names import table_of
from edge_embed.program.capture import trace
from edge_embed.program.program import Program
from edge_embed.report.results.table_record import TableRecord


def export_onnx(
    lowered: LoweredProgram,
    path: Path,
    external_data: ExternalData = "auto",
    force: bool = False,
    memory_megabytes: int | None = None,
    tokenizer: FusedTokenizer | None = None,
    on_written: OnWritten = keep_unopened,
) -> ExportedFile:
    """Write a lowered program as ONNX (opset 18, IR 10).

    Args:
        lowered: a program from `edge_embed.lowering.graph.lower_program`.
        path: the file to write; external weights go to ``<path>.data`` beside it.
        external_data: ``auto`` keeps one file up to 128 MB of weights.
        force: overwrite existing files; the weights file of a replaced model is removed with it.
        memory_megabytes: session memory of each node, in MiB; None selects the default: nothing for rows of TT, and for
            output layers of DPQ nothing with external weights, and as much as the codes in one file.
        tokenizer: a tokenizer to put in front of the inputs that it replaces.
        on_written: called with the path of the complete file before it gets its name; an error leaves nothing.

    Raises:
        BadInputError: the program has no compressed table, or an operator without ONNX equivalent, or megabytes
            without a node that can use them.
        OutputError: the file cannot be written; nothing partial is left.
    """
    check_tables(lowered)
    if memory_megabytes is not None:
        check_count("memory_megabytes", memory_megabytes, least=0, most=MAX_SIZE >> 20)
    model = build_model(lowered, None if memory_megabytes is None else memory_megabytes << 20)
    if tokenizer is not None:
        fuse_tokenizer(model, tokenizer)
    external = goes_external(model, external_data)
    if external and memory_megabytes is None:  # a mapped table stays the only copy
        _limit_memory(lowered, model, 0)
    with new_model(path, external, force) as temporary:
        write_model(model, *temporary)
        on_written(temporary[0])
    files = (path, weights_file(path)) if external else (path,)
    dimensions = dimensions_of(model, str), dimensions_of(model, int)
    return ExportedFile(files, *dimensions, _with_session_memory(lowered, model))


def build_model(lowered: LoweredProgram, memory_bytes: int | None = None) -> ir.Model:
    """Build the ONNX model in memory; packed tables are referenced, not copied.

    Args:
        lowered: the program.
        memory_bytes: session memory of each node, in bytes; None selects the default.
    """
    program = lowered.program
    dimensions = {"inputs": tuple(declared.traced for declared in program.inputs)}
    traced = trace(program.module, program.example_inputs, {}, dimensions)
    model = _translate(lowered, traced)
    _attach_bodies(model)
    model.opset_imports[DOMAIN] = DOMAIN_VERSION
    model.ir_version = IR_VERSION
    rename_dimensions(model, program)
    _anonymize(model)
    model.metadata_props.update(metadata_of(lowered))
    if memory_bytes is not None:
        _limit_memory(lowered, model, memory_bytes)
    return model


def _limit_memory(lowered: LoweredProgram, model: ir.Model, most_bytes: int) -> None:
    """Set the limit of session memory in every node that can use some."""
    nodes = [node for name, use, node in _table_nodes(model) if use in memory_uses(lowered.tables[name].method)]
    if not nodes and most_bytes:
        raise BadInputError(
            "memory_megabytes: got a value for a model without session memory, expected rows of TT or output "
            "layers of DPQ: remove it"
        )
    for node in nodes:
        node.attributes.add(ir.AttrInt64(MEMORY_BYTES, most_bytes))
        operator = OPERATORS[node.op_type]
        if operator.method.around is not None:
            _add_function(model, operator, len(node.inputs) - operator.num_leading, most_bytes)


def _with_session_memory(lowered: LoweredProgram, model: ir.Model) -> tuple[TableRecord, ...]:
    """Return the records of tables with their session memory, and with the needed memory if the limit is lower."""
    taken: Counter[str] = Counter()
    needed: dict[str, int] = {}
    for name, use, node in _table_nodes(model):
        table, limit = lowered.tables[name], node.attributes.get_int(MEMORY_BYTES, None)
        taken[name] += session_bytes(table.method, table.shape, use, limit)
        least = least_session_bytes(table.method, table.shape, use)
        if limit and limit < least:  # 0 means no session memory
            needed[name] = least
    return tuple(
        replace(record, session_bytes=taken[record.name], needed_bytes=needed.get(record.name, 0))
        for record in lowered.reports
    )


def _table_nodes(model: ir.Model) -> Iterator[tuple[str, Use, ir.Node]]:
    """Yield our nodes, with the name of their table and their use."""
    for operator, node in _own_nodes(model):
        first = node.inputs[operator.num_leading]
        assert first is not None  # every node has the first of its tensors
        yield table_of(str(first.name)), operator.use, node


def _own_nodes(model: ir.Model) -> Iterator[tuple[OnnxOperator, ir.Node]]:
    """Yield the nodes that use a table."""
    return ((OPERATORS[node.op_type], node) for node in model.graph if _is_ours(node) and node.op_type in OPERATORS)


def _is_ours(node: ir.Node) -> bool:
    return node.domain == DOMAIN


def _attach_bodies(model: ir.Model) -> None:
    """Add the functions that the nodes need, and those that these call."""
    for op_type in sorted({node.op_type for node in model.graph if _is_ours(node) and node.op_type in ACTIVATIONS}):
        function = ir.serde.deserialize_function(entmax.function(op_type))
        model.functions[function.identifier()] = function
    nodes = ((operator, len(node.inputs) - operator.num_leading) for operator, node in _own_nodes(model))
    for operator, count in needed_bodies(nodes):
        _add_function(model, operator, count)


def _add_function(model: ir.Model, operator: OnnxOperator, count: int, memory_bytes: int | None = None) -> None:
    function = ir.serde.deserialize_function(operator.function(count, memory_bytes))
    model.functions[function.identifier()] = function


def _translate(lowered: LoweredProgram, traced: ExportedProgram) -> ir.Model:
    program, table = lowered.program, _translations(lowered.id_check)
    try:
        with _quiet():
            exported = torch.onnx.export(
                traced,
                input_names=[declared.name for declared in program.inputs],
                output_names=list(program.output_names),
                opset_version=OPSET,
                custom_translation_table=table,
                dynamo=True,
                optimize=False,
                verbose=False,
            )
            assert exported is not None  # not None with dynamo=True
            with _tables_as_inputs(exported.model, lowered):
                exported.optimize()
            _name_ends(exported.model, program)
    except torch.onnx.errors.OnnxExporterError as error:
        raise BadInputError(f"the model cannot be expressed in ONNX: {_reason(error)}") from error
    return exported.model


def _name_ends(model: ir.Model, program: Program) -> None:
    """Set the names of inputs and outputs, because the exporter renames a tensor that is two of them."""
    names = [*(declared.name for declared in program.inputs), *program.output_names]
    ends = [*model.graph.inputs, *model.graph.outputs]
    for value in values_of(model):
        if value.name in names and not any(value is end for end in ends):
            value.name = f"{value.name}_inside"
    for value, name in zip(ends, names, strict=True):
        value.name = name


@contextlib.contextmanager
def _tables_as_inputs(model: ir.Model, lowered: LoweredProgram) -> Iterator[None]:
    """Hide the contents of tables from the optimiser: it would read them, and merge equal tensors of two tables."""
    names = lowered.stored_names()
    tensors = [value for name, value in model.graph.initializers.items() if name in names]
    contents = [value.const_value for value in tensors]
    for value in tensors:
        del model.graph.initializers[str(value.name)]
        value.const_value = None
        model.graph.inputs.append(value)
    yield
    for value, content in zip(tensors, contents, strict=True):
        model.graph.inputs.remove(value)
        value.const_value = content
        model.graph.register_initializer(value)


def _translations(id_check: IdCheck | None) -> dict[Any, Callable[..., Any]]:
    found: dict[Any, Callable[..., Any]] = {**recurrent.TRANSLATIONS, **entmax.TRANSLATIONS}
    found |= {each.method.operators.uses[each.use]: each.translation() for each in OPERATORS.values()}
    if id_check is None:
        return found | DENSE_BAGS
    for each in OPERATORS.values():
        if each.use in CHECKED_USES:
            found[each.method.operators.uses[each.use]] = checked(each, id_check)
    return found | dense_lookups(id_check)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporter's reports on stdout, by warnings and by logging; errors are raised as exceptions."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in ("torch.onnx", "onnxscript")}
    for logger in levels:
        logger.setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            for logger, level in levels.items():
                logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """Return the missing operator, or the first line, from a report of many pages."""
    text = f"{error}\n{error.__cause__ or ''}"
    missing = re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)', overload='(\w+)'\)>", text)
    if missing:
        return f"the operator {missing[1]}.{missing[2]} has no equivalent there: replace it by other operators"
    while error.__cause__ is not None:
        error = error.__cause__
    return re.sub(r"\x1b\[[\d;]*m", "", str(error)).strip().partition("\n")[0] or type(error).__name__


def _anonymize(model: ir.Model) -> None:
    """Remove the user's source files, folders and class names, which tracing recorded."""
    model.producer_name, model.producer_version = "edge-embed", metadata.version("edge-embed")
    model.doc_string = model.graph.doc_string = None
    model.graph.name = "edge_embed"
    model.metadata_props.clear()
    model.graph.metadata_props.clear()
    for value in [*values_of(model), *model.graph.initializers.values()]:
        value.metadata_props.clear()
        value.doc_string = None
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
