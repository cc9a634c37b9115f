"""An ONNX file that was compressed in place and its original, opened and compared."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx.inliner
import torch
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto

from edge_embed.compression.onnx.session_memory import limit_session_memory, session_memory_limit
from edge_embed.exporters.onnx.model_file import damaged, tensors_of
from edge_embed.exporters.onnx.names import DOMAIN, FIDELITY_KEY
from edge_embed.importers.genai_folder import GenaiFolder
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.packed.stored_names import stored_name
from edge_embed.report.results.fidelity_promise import Promise, parse_promises
from edge_embed.report.results.validation import Check
from edge_embed.validation import paths
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.pair.cached_sizes import is_buffer
from edge_embed.validation.pair.dense_twins import DenseTwins, packed_uses, write_twins
from edge_embed.validation.pair.float_states import in_float
from edge_embed.validation.pair.genai_checks import folder_checks
from edge_embed.validation.pair.inputs import declared_inputs, rows_reached
from edge_embed.validation.pair.module import Feeds, Run
from edge_embed.validation.pair.program import PairProgram, Ports, pair_program
from edge_embed.validation.pair.rewritten_original import Rewritten, rewrite
from edge_embed.validation.pair.sizes import sizes_in_onnx
from edge_embed.validation.pair.stored_tables import packed_tables
from edge_embed.validation.pair.structure import compare_structure
from edge_embed.validation.pair.texts import texts_of_onnx

_HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class OnnxPair:
    """Two ONNX files, with the results of comparing them.

    Attributes:
        original: the file that was compressed.
        original_files: the original and its external data files.
        rewritten: the original with the packed tables of the compressed file.
        promises: the fidelity that `compress` reported, by table name.
        structure: checks of the rest of the compressed file against a new compression.
        twins: the original with dense rows in its tables.
        half: whether its numbers include float16 or bfloat16.
        run_original: function that runs the original, without rounding of its states to 8 bits.
        exact: the compressed file, without this rounding.
    """

    original: Path
    original_files: tuple[Path, ...]
    rewritten: Rewritten
    promises: Mapping[str, Promise]
    structure: tuple[Check, ...]
    twins: DenseTwins
    half: bool
    run_original: Run
    exact: Path

    @property
    def run_dense(self) -> Run:
        """A function that runs the compressed graph with the rows of the original, without this rounding."""
        return session_run(self.twins.dense, _compared_outputs(self.rewritten.file.model))

    @property
    def run_exact(self) -> Run:
        """A function that runs the original with the stored rows, without this rounding."""
        return session_run(self.twins.exact, _compared_outputs(self.rewritten.file.model))


@contextmanager
def open_onnx_pair(
    original: Path, compressed: Path, folder: GenaiFolder | None = None
) -> Iterator[tuple[PairProgram, LoweredProgram]]:
    """Open two files as a model for validation, with a copy of the weights in a temporary folder.

    Args:
        original: an ONNX file of any tool.
        compressed: the output of `compress` for it.
        folder: the GenAI folder of the output, if it is part of one.

    Raises:
        BadInputError: one of them is damaged, or the second was not made from the first.
    """
    exported = ExportedModel(compressed, original)
    tables = packed_tables(exported)
    text = next((item.value for item in exported.proto.metadata_props if item.key == FIDELITY_KEY), "{}")
    promises = parse_promises(text)
    rewritten = rewrite(original, compressed, tables, promises)
    model = rewritten.file.model
    limit = session_memory_limit(exported.proto, rewritten.tables)
    if limit is not None:
        limit_session_memory(model, limit)
    tensors = {stored_name(name, key) for name, stored in rewritten.tables.items() for key in stored.arrays()}
    structure = compare_structure(exported.proto, compressed.parent, model, original.parent, tensors)
    structure += () if folder is None else folder_checks(folder, exported.proto)
    rows = {name: stored.plain.num_embeddings for name, stored in tables.items()}
    with damaged(original):
        ports = _ports(model, rows)
    uses = list(packed_uses(model.graph, rewritten.tables))
    half = _has_half(rewritten)
    files = rewritten.file.files
    with tempfile.TemporaryDirectory() as temporary:
        twins = write_twins(rewritten, Path(temporary))
        run = partial(session_run, names=ports.output_names)
        original_exact, run_original = in_float(original, Path(temporary) / "original.onnx"), run(original)
        run_exact = run_original if original_exact == original else run(original_exact)
        exact = in_float(compressed, Path(temporary) / "compressed.onnx")
        pair = OnnxPair(original, files, rewritten, promises, structure, twins, half, run_exact, exact)
        yield pair_program(ports, uses, rewritten.tables, (original, run_original), run(twins.reconstructed), pair)


def _has_half(rewritten: Rewritten) -> bool:
    """Return whether the weights, inputs, outputs or casts of a model include float16 or bfloat16."""
    model = rewritten.file.model
    kinds = {tensor.data_type for tensor in tensors_of(model)}
    kinds |= {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    kinds |= {item.i for node in model.graph.node if node.op_type == "Cast" for item in node.attribute}
    tables = any(weight.dtype in _HALVES for weight in rewritten.dense.values())
    return tables or bool(kinds & {TensorProto.FLOAT16, TensorProto.BFLOAT16})


def _compared_outputs(model: ModelProto) -> list[str]:
    """Return the outputs without buffers of a decoder, which hold undefined numbers behind the last token."""
    shapes = {value.name: [size.dim_param for size in value.type.tensor_type.shape.dim] for value in model.graph.output}
    return [name for name, shape in shapes.items() if not any(map(is_buffer, shape))]


def _ports(model: ModelProto, tables: Mapping[str, int]) -> Ports:
    functions = [(each.domain, each.name) for each in model.functions if each.domain != DOMAIN]
    walked = onnx.inliner.inline_selected_functions(model, functions) if functions else model
    outputs = tuple(_compared_outputs(model))
    rows = rows_reached(walked, tables)
    return Ports(declared_inputs(model), outputs, rows, texts_of_onnx(model), sizes_in_onnx(model))


def session_run(path: Path, names: Sequence[str]) -> Run:
    """Return a function that runs a file in ONNX Runtime, with the operator library if there is one."""
    session = paths.open_session(path, portable=bool(paths.missing_library()))

    def run(feeds: Feeds) -> Sequence[NDArray[Any]]:
        return list(map(np.asarray, paths.run_session(session, list(names), feeds, f"{path.name} runs")))

    return run
