"""A TFLite file that was compressed in place and its original, opened and compared."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from edge_embed.compression.tflite.foreign_file import ForeignFile, damaged, read_foreign
from edge_embed.compression.tflite.replace import manifest_names, read_dense_tables, replace_in
from edge_embed.compression.tflite.tensor_names import free_name
from edge_embed.errors import BadInputError, located
from edge_embed.exporters.onnx.names import FIDELITY_KEY, MANIFEST_KEY
from edge_embed.exporters.tflite.dpq import TfliteTable
from edge_embed.exporters.tflite.flatbuffer import load_schema
from edge_embed.exporters.tflite.names import LAYOUTS_KEY
from edge_embed.exporters.tflite.table_uses import choose_layouts, read_tensors
from edge_embed.fitting.fidelity import nearness
from edge_embed.fitting.fitted_table import Stored
from edge_embed.inspection.report import PortInfo
from edge_embed.inspection.tflite_file import TfliteModel, read_tflite
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.packed.manifest import parse_manifest
from edge_embed.packed.packed_form import METHODS
from edge_embed.program.program import TEXT, ProgramInput, Sizes
from edge_embed.report.results.fidelity_promise import Promise, parse_promises
from edge_embed.report.results.validation import Check
from edge_embed.targets.tflite.litert import LiteRtModel
from edge_embed.validation.pair.inputs import default_axis, is_flag
from edge_embed.validation.pair.module import Feeds, Run
from edge_embed.validation.pair.program import PairProgram, Ports, pair_program
from edge_embed.validation.pair.rewritten_original import no_table
from edge_embed.validation.pair.sizes import sizes_in_tflite
from edge_embed.validation.pair.texts import texts_of_tflite
from edge_embed.validation.pair.tflite_structure import compare_files

_SAMPLE = 256  # rows that identify the rotation of a table
_ORTHOGONAL = 0.1


@dataclass(frozen=True)
class TflitePair:
    """Two TFLite files, with the results of comparing them.

    Attributes:
        original: the file that was compressed.
        tables: packed tables by name in the manifest.
        dense: the dense tables that they replace, float32 [n, d], by the same names.
        promises: the fidelity that `compress` reported for them.
        structure: checks of the rest of the compressed file against a new compression.
        fixed: the only sizes of the dynamic dimensions, or empty if any size is allowed.
        operators: operators of the original, with their counts, by name.
        substituted: whether the original itself runs with the stored rows; otherwise the output of `compress` runs.
    """

    original: Path
    tables: Mapping[str, Stored]
    dense: Mapping[str, torch.Tensor]
    promises: Mapping[str, Promise]
    structure: tuple[Check, ...]
    fixed: list[Sizes]
    operators: Mapping[str, int]
    substituted: bool


@contextmanager
def open_tflite_pair(original: Path, compressed: Path) -> Iterator[tuple[PairProgram, LoweredProgram]]:
    """Open two files as a model for validation.

    Args:
        original: a TFLite file of any converter.
        compressed: the output of `compress` for it.

    Raises:
        BadInputError: one of them is damaged, or the second was not made from the first.
        EdgeEmbedError: the package ai-edge-litert is not installed.
    """
    first, model = read_tflite(original), read_tflite(compressed)
    if MANIFEST_KEY not in model.metadata or MANIFEST_KEY in first.metadata:
        raise no_table(original, compressed)
    promises = parse_promises(model.metadata.get(FIDELITY_KEY, "{}"))
    every = read_dense_tables(original)
    tables = _packed_tables(compressed, model)
    names = _assigned(original, compressed, every, tables)
    dense = {name: torch.from_numpy(every[table]) for name, table in names.items()}
    stored = {name: _with_rotation(each, dense[name], model) for name, each in tables.items()}
    with tempfile.TemporaryDirectory() as folder:
        expected, reconstructed = Path(folder) / "expected.tflite", Path(folder) / "reconstructed.tflite"
        texts = {key: model.metadata[key] for key in (FIDELITY_KEY,) if key in model.metadata}
        file = read_foreign(original)
        with damaged(original):
            ports, fixed = _ports(file, first, stored)
        by_table = {table: stored[name] for name, table in names.items()}
        in_order = {table: by_table[table] for table in every if table in by_table}
        replace_in(file, expected, in_order, _layout(stored, model), force=True, texts=texts)
        substituted = _substitute(original, reconstructed, {names[name]: each for name, each in stored.items()}, every)
        pair = TflitePair(
            original, stored, dense, promises, compare_files(compressed, expected), fixed, first.operators, substituted
        )
        yield pair_program(
            ports,
            [(name, "rows") for name in stored],
            stored,
            (original, _runner(original)),
            _runner(reconstructed if substituted else expected),
            pair,
        )


def _packed_tables(path: Path, model: TfliteModel) -> dict[str, Stored]:
    with located(str(path)):
        entries = parse_manifest(model.metadata[MANIFEST_KEY], path.stat().st_size).tables
        found = {}
        for name, entry in entries.items():
            with located(f"table {name}"):
                try:
                    layout = str(json.loads(model.metadata[LAYOUTS_KEY])[name]["layout"])
                    tensors = read_tensors(model.tensors, name, entry, layout)
                except (KeyError, ValueError, IndexError, TypeError, RecursionError) as error:
                    raise BadInputError(
                        f"its tensors are not where the file declares them ({error!s:.80}): compress it again"
                    ) from error
                packed = METHODS[entry.method].from_tensors(tensors, entry.shape.attributes(), entry.padding_idx)
            found[name] = Stored(packed)
    return found


def _assigned(
    original: Path, compressed: Path, dense: Mapping[str, NDArray[Any]], packed: Mapping[str, Stored]
) -> dict[str, str]:
    """Return the dense table of each packed one, by the name of the packed one."""
    by_name: dict[str, str] = {}
    for table in dense:
        by_name.setdefault(manifest_names([table])[table], table)
    for name, stored in packed.items():
        sizes = stored.plain.num_embeddings, stored.plain.embedding_dim
        if name not in by_name or dense[by_name[name]].shape != sizes:
            shown = ", ".join(f"{table} {list(rows.shape)}" for table, rows in dense.items()) or "none"
            raise BadInputError(
                f"{compressed}: compressed table {name} {list(sizes)} has no dense table in {original}, which "
                f"contains {shown}: give the file that was compressed"
            )
    return {name: by_name[name] for name in packed}


def _with_rotation(stored: Stored, dense: torch.Tensor, model: TfliteModel) -> Stored:
    """Return the table with the rotation in the file that brings its rows closest to the dense ones, if one helps."""
    dim = stored.plain.embedding_dim
    ids = np.unique(np.linspace(0, stored.plain.num_embeddings - 1, _SAMPLE).astype(np.int64))
    rows, weights = dense[torch.from_numpy(ids)].double(), torch.ones(len(ids), dtype=torch.float64)

    def near(each: Stored) -> float:
        return nearness(rows, torch.from_numpy(each.rows_float64(ids)), weights)[0]

    candidates = [stored]
    kinds: dict[int, Any] = {4 * dim * dim: np.float32, 2 * dim * dim: np.float16}
    for name, content in model.tensors.items():
        if "/constant_" in name and content.nbytes in kinds:
            rotation: NDArray[Any] = content.view(kinds[content.nbytes]).reshape(dim, dim)
            wide = rotation.astype(np.float64)
            if np.abs(wide @ wide.T - np.eye(dim)).max(initial=0.0) < _ORTHOGONAL:
                candidates.append(Stored(stored.plain, rotation))
    return max(candidates, key=near)


def _layout(tables: Mapping[str, Stored], model: TfliteModel) -> str:
    """Return the layout option that `replace_tables` was given, as far as the file shows it."""
    noted = json.loads(model.metadata[LAYOUTS_KEY])
    for wanted in get_args(TfliteTable):
        with suppress(BadInputError):
            layouts = choose_layouts({name: stored.plain for name, stored in tables.items()}, wanted)
            if all(noted[name]["layout"] == layout.name for name, layout in layouts.items()):
                return str(wanted)
    return "auto"


def _substitute(
    original: Path, path: Path, tables: Mapping[str, Stored], dense: Mapping[str, NDArray[np.float32]]
) -> bool:
    """Write the original with the stored rows in its float32 tables; return false if it stores them in another form."""
    schema = load_schema()
    with damaged(original):
        model = schema.ModelT.InitFromPackedBuf(original.read_bytes(), 0)
        for name, stored in tables.items():
            content = dense[name].astype("<f4").tobytes()
            same = [buffer for buffer in model.buffers if buffer.data is not None and bytes(buffer.data) == content]
            if len(same) != 1:
                return False
            rows = stored.rows_float64(np.arange(stored.plain.num_embeddings)).astype(stored.plain.row_type)
            same[0].data = np.frombuffer(rows.astype("<f4").tobytes(), np.uint8)
        import flatbuffers  # noqa: PLC0415

        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))
    return True


def _runner(path: Path) -> Run:
    model = LiteRtModel(path)

    def run(feeds: Feeds) -> Sequence[NDArray[Any]]:
        return model.call(feeds)

    return run


def _ports(file: ForeignFile, model: TfliteModel, tables: Mapping[str, Stored]) -> tuple[Ports, list[Sizes]]:
    """Return the inputs of calls, and the sizes in the signatures if there are several."""
    original = file.path
    names, several = LiteRtModel(original).input_names, list(model.signatures.values())[: _most(model)]
    first = {port.name: port for port in several[0]} if several else dict(zip(names, model.inputs, strict=True))
    shapes = [{port.name: port.shape or [] for port in ports} for ports in several]
    alike = [each for each in shapes if each.keys() == first.keys()]
    inputs = tuple(_declared(original, name, first[name], [each[name] for each in alike]) for name in names)
    fixed: list[Sizes] = []
    for each in alike:
        pairs = [pair for port in inputs for pair in zip(port.shape, each[port.name], strict=True)]
        sizes = {dim: size for dim, size in pairs if isinstance(dim, str) and isinstance(size, int)}
        fixed += [sizes] if sizes and sizes not in fixed else []
    taken: dict[str, int] = {}
    outputs = tuple(free_name(port.name or "output", taken) for port in model.outputs)
    # Which input reaches which table is not searched: all ids are below the row count of the smallest table.
    rows = min(stored.plain.num_embeddings for stored in tables.values())
    ids = [each.name for each in inputs if each.holds_integers and not is_flag(each.name)]
    likely = sizes_in_tflite(file.model)
    return Ports(inputs, outputs, dict.fromkeys(ids, rows), texts_of_tflite(file.model), likely), fixed


def _most(model: TfliteModel) -> int | None:
    """Return the end of the slice of signatures that matter: a single one adds nothing to the tensors."""
    return 0 if len(model.signatures) < 2 else None


def _declared(original: Path, name: str, port: PortInfo, others: Sequence[Sequence[Any]]) -> ProgramInput:
    dtype = TEXT if port.dtype == "string" else getattr(torch, str(port.dtype), None)
    if not isinstance(dtype, torch.dtype):
        expected = "expected numbers or texts: validation does not support other inputs"
        raise BadInputError(f"{original}: input {name}: got {port.dtype}, {expected}")
    shape: list[int | str] = []
    for axis, size in enumerate(port.shape or []):
        is_fixed = isinstance(size, int) and size > 0 and all(other[axis] == size for other in others)
        shape.append(int(size) if is_fixed and isinstance(size, int) else default_axis(axis))
    return ProgramInput(name, dtype, tuple(shape))
