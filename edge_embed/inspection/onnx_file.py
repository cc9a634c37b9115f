"""Inspection of an ``.onnx`` model: its structure is parsed once, external data is checked but never loaded."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

from edge_embed.compression.onnx.foreign_model import ForeignModel
from edge_embed.compression.onnx.in_sight import uses_in_sight
from edge_embed.compression.onnx.scopes import STANDARD
from edge_embed.compression.onnx.table_uses import View
from edge_embed.errors import BadInputError, located
from edge_embed.exporters.onnx.model_file import damaged, dtype_name, parse_model
from edge_embed.exporters.onnx.names import DOMAIN, MANIFEST_KEY, METADATA_KEY, TOKENIZER_KEY, VOCABULARY_KEY
from edge_embed.inspection.follow_up import bodies_are_gone, nodes_are_gone
from edge_embed.inspection.hashing import HashCheck
from edge_embed.inspection.onnx_tables import (
    OnnxTable,
    called_by_bodies,
    check_specs,
    nodes_of,
    tables_of_nodes,
)
from edge_embed.inspection.onnx_weights import Weights
from edge_embed.inspection.report import (
    DenseInfo,
    FileReport,
    OnnxInfo,
    OperatorInfo,
    PortInfo,
    TableInfo,
    table_info,
)
from edge_embed.packed.manifest import FORMAT_VERSION, Manifest, TableEntry, parse_manifest
from edge_embed.packed.packed_form import TableShape, TensorSpec
from edge_embed.packed.stored_names import stored_names

_OTHER_TOOL = "no compressed table of edge-embed: a model made by another tool"
_DENSE_TYPES = {"float32", "float16", "bfloat16", "float64", "int8", "uint8"}


def inspect_onnx(path: Path, verify: bool) -> FileReport:
    """Report an ONNX model.

    Raises:
        BadInputError: It is damaged or not an ONNX model, or its external data is missing, short or elsewhere.
    """
    with damaged(path):
        return _Inspection(path, verify).report()


class _Inspection:
    """One pass over a model."""

    def __init__(self, path: Path, verify: bool) -> None:
        self._path, self._verify = path, verify
        self._file_bytes = path.stat().st_size
        self._model = parse_model(path)
        self._weights = Weights(path, self._model)
        self._nodes = nodes_of(self._model)
        self._properties = _properties(self._model)
        self._manifest: Manifest | None = None
        if MANIFEST_KEY in self._properties:
            self._manifest = parse_manifest(self._properties[MANIFEST_KEY], self._file_bytes)
        self._warnings: list[str] = []
        self._differences: list[str] = []

    def report(self) -> FileReport:
        operators = self._operators()
        tables = self._tables()
        self._warn_about_data()
        if self._verify and self._manifest is None:
            self._differences.append(
                "manifest is missing, so its tables cannot be compared with the export: export it again"
            )
        initializers = {tensor.name for tensor in self._model.graph.initializer}
        inputs = [value for value in self._model.graph.input if value.name not in initializers]
        vocabulary = self._json(VOCABULARY_KEY, list)
        layers = self._output_layers()
        return FileReport(
            path=str(self._path),
            kind="onnx",
            file_bytes=self._file_bytes,
            total_bytes=self._file_bytes + self._weights.data_bytes,
            verified=self._verify,
            tables=tables,
            dense=[*self._dense(), *layers],
            inputs=[_port(value) for value in inputs],
            outputs=[_port(value) for value in self._model.graph.output],
            vocabulary_size=None if vocabulary is None else len(vocabulary),
            metadata={str(key): str(value) for key, value in (self._json(METADATA_KEY, dict) or {}).items()},
            tokenizer=self._json(TOKENIZER_KEY, dict),
            onnx=OnnxInfo(
                int(self._model.ir_version),
                {item.domain or "ai.onnx": int(item.version) for item in self._model.opset_import},
                FORMAT_VERSION if self._nodes or self._manifest else None,  # other versions were refused before
                operators,
                self._weights.files(),
            ),
            notes=[*([] if tables or self._nodes else [_OTHER_TOOL]), *(_untied(layer.name) for layer in layers)],
            warnings=self._warnings,
            differences=self._differences,
        )

    def _operators(self) -> list[OperatorInfo]:
        """Return node count and body of each operator type, and warn about a missing one of the two.

        A body that only other bodies call is part of those, and they require it.
        """
        bodies = {function.name for function in self._model.functions if function.domain == DOMAIN}
        used = {node.op_type for node in self._nodes}
        counts = dict.fromkeys(sorted(used | (bodies ^ called_by_bodies(self._model))), 0)
        for node in self._nodes:
            counts[node.op_type] += 1
        if bare := [name for name in counts if name not in bodies]:
            self._warnings.append(bodies_are_gone(self._model, bare))
        for name, count in counts.items():
            if name in bodies and not count:
                self._warnings.append(f"{name} has a body, but no node uses it: the nodes were replaced")
        if self._manifest is not None and not self._nodes:
            self._warnings.append(nodes_are_gone(self._model))
        return [OperatorInfo(name, count, name in bodies) for name, count in counts.items()]

    def _tables(self) -> list[TableInfo]:
        used = tables_of_nodes(self._nodes, self._weights)
        noted = {} if self._manifest is None else self._manifest.tables
        found = (self._table(name, used.get(name), noted.get(name)) for name in sorted({*used, *noted}))
        return [table for table in found if table is not None]

    def _table(self, name: str, used: OnnxTable | None, noted: TableEntry | None) -> TableInfo | None:
        if noted is not None and used is not None:
            used = _with_rest(used, noted)
        table = used
        if noted is not None:
            if used is not None:
                self._compare(used, noted)
            if table is None or table.shape is None:
                table = _as_noted(name, noted, used)
        if table is None or table.shape is None:
            self._warnings.append(f"table {name!r:.80}: its tensors are not initializers, so it is not listed")
            return None
        check = HashCheck(name, {} if noted is None else noted.sha256)
        stored = self._stored(table, table.shape, check)
        info = table_info(name, table.method, "packed", table.shape, table.padding_idx, stored, check.status)
        if self._verify and check.status == "not checked":
            info.hash_status = "no hash"
            if self._manifest is not None:
                self._differences.append(f"table {name!r:.80}: cannot be compared: a tensor or its hash is missing")
        info.session_bytes = table.session_bytes
        self._differences += check.differences
        return info

    def _stored(self, table: OnnxTable, shape: TableShape, check: HashCheck) -> int:
        """Return the bytes of the table's tensors in the model; hash the tensors if verification is requested."""
        specs = {tensor: self._weights.spec(stored) for tensor, stored in table.initializers.items()}
        known = {tensor: spec for tensor, spec in specs.items() if spec is not None}
        if len(known) < len(specs):
            gone = ", ".join(table.initializers[tensor] for tensor in specs.keys() - known.keys())
            self._warnings.append(f"table {table.name!r:.80}: tensor {gone!r:.80} is missing: a tool replaced it")
        else:
            with located(f"table {table.name!r:.80}"):
                check_specs(known, shape)
            for tensor in check.expected if self._verify else ():
                check.compare(tensor, self._weights.sha256(table.initializers[tensor]))
        return sum(self._weights.nbytes(table.initializers[tensor]) for tensor in known)

    def _compare(self, used: OnnxTable, noted: TableEntry) -> None:
        got = (used.method, used.shape, used.padding_idx)
        expected = (noted.method, noted.shape, noted.padding_idx)
        if used.shape is not None and got != expected:
            converted = {used.shape.value_type, noted.shape.value_type} == {"float16", "float32"}
            remedy = (
                "a float16 conversion changed it; export the model after model.half()"
                if converted
                else "export it again"
            )
            self._differences.append(
                f"table {used.name!r:.80}: its node has {got}, expected {expected} from the manifest: {remedy}"
            )

    def _dense(self) -> list[DenseInfo]:
        """Return the initializers of two dimensions that are gathered by row."""
        ours = {name for node in self._nodes for name in node.input}
        noted = self._manifest.tensor_specs().values() if self._manifest and not self._nodes else ()
        # An inlined body of a table gathers from its tensors too, unchanged or flattened.
        inlined = {TensorSpec(dtype, (math.prod(shape[:-1]), shape[-1])) for dtype, shape in noted}
        found: dict[str, DenseInfo] = {}
        for node in self._model.graph.node:
            name = node.input[0] if _gathers_rows(node) else ""
            spec = self._weights.spec(name)
            if spec is None or name in ours or len(spec.shape) != 2 or spec.dtype not in _DENSE_TYPES:
                continue
            if spec in inlined:
                continue
            rows, columns = spec.shape
            label = name.removesuffix(".weight")
            found[name] = DenseInfo(label, rows, columns, spec.dtype, self._weights.nbytes(name))
        return list(found.values())

    def _output_layers(self) -> list[DenseInfo]:
        """Return matrices of output layers without a table; none if our bodies, which have such, were inlined."""
        if not any(item.domain in STANDARD for item in self._model.opset_import) or (
            self._manifest and not self._nodes
        ):
            return []
        found = []
        for uses in uses_in_sight(View(ForeignModel(self._path, self._model, ()))):
            use = uses[0]
            if any(each.kind == "rows" for each in uses):
                continue
            leaf = max(use.known.leaves, key=lambda leaf: leaf.nbytes)
            rows, columns = use.known.shape[use.axis], use.known.shape[1 - use.axis]
            label = leaf.name.removesuffix(".weight")
            found.append(DenseInfo(label, rows, columns, use.known.dtype, leaf.nbytes))
        return found

    def _warn_about_data(self) -> None:
        count = self._weights.misaligned()
        if count:
            self._warnings.append(
                f"{count} tensors of external data are not aligned (64 bytes; 4096 from 64 KiB on): runtimes "
                "copy them into memory instead of mapping the file; export again, or write them aligned"
            )

    def _json(self, key: str, kind: type[Any]) -> Any:
        if key not in self._properties:
            return None
        value = json.loads(self._properties[key])
        if not isinstance(value, kind):
            raise BadInputError(f"{key}: got {value!r:.80}, expected a JSON {kind.__name__}: export it again")
        return value


def _with_rest(used: OnnxTable, noted: TableEntry) -> OnnxTable:
    """Complete a table of plain nodes, whose surrounding nodes were inlined by a session that saved the model."""
    if used.shape == noted.shape or used.shape != noted.shape.plain:
        return used
    names = stored_names(used.name, noted.shape.tensor_specs())
    return replace(used, shape=noted.shape, initializers={**names, **used.initializers})


def _as_noted(name: str, noted: TableEntry, used: OnnxTable | None) -> OnnxTable:
    """Return a table from its manifest entry: no node uses it, or the node does not show its sizes."""
    names = stored_names(name, noted.shape.tensor_specs())
    return OnnxTable(name, noted.method, noted.shape, noted.padding_idx, used.initializers if used else names)


def _properties(model: ModelProto) -> dict[str, str]:
    properties = {item.key: item.value for item in model.metadata_props}
    if len(properties) != len(model.metadata_props):
        raise BadInputError("contains a metadata key twice: export it again")
    return properties


def _untied(name: str) -> str:
    return f"{name} is an output layer without lookups: compress leaves it unless it is named (--module {name})"


def _gathers_rows(node: NodeProto) -> bool:
    axis = next((item.i for item in node.attribute if item.name == "axis"), 0)
    return node.op_type == "Gather" and node.domain in ("", "ai.onnx") and axis == 0 and len(node.input) == 2


def _port(value: ValueInfoProto) -> PortInfo:
    tensor = value.type.tensor_type
    dtype = "" if tensor.elem_type == TensorProto.UNDEFINED else dtype_name(tensor.elem_type)
    if not tensor.HasField("shape"):
        return PortInfo(value.name, dtype, None)
    sizes: list[int | str | None] = []
    for size in tensor.shape.dim:
        sizes.append(int(size.dim_value) if size.HasField("dim_value") else str(size.dim_param) or None)
    return PortInfo(value.name, dtype, sizes)
