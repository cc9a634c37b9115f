"""Results of ``inspect`` as data; the JSON keys are the field names and are stable."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any, Literal

import numpy as np
from rich.console import Console

from edge_embed.packed.packed_form import TableShape, TensorSpec
from edge_embed.report.results.model_source import SourceFacts
from edge_embed.report.results.shown import Shown

SCHEMA_VERSION = 1

Kind = Literal["program", "torch_save", "packed", "onnx", "ort", "tflite", "vectors", "transformers"]
State = Literal["trainable", "frozen", "stored", "packed"]
HashStatus = Literal["not checked", "matches", "DIFFERS", "no hash"]


@dataclass
class TableInfo:
    """One compressed table.

    Attributes:
        name: Name of the table in the user's model, such as ``encoder.embedding``.
        method: ``dpq``, ...
        state: ``trainable`` and ``frozen`` in a saved program, ``packed`` in files made from it; ``stored`` for tt in a
            program, whose cores are the same while trained and when frozen.
        num_embeddings: Rows n.
        embedding_dim: Columns d.
        attributes: Other sizes, as in a packed file. dpq: ``num_codes`` (K), ``num_groups`` (D), ``bits``,
            ``share_subspaces``; ant: ``num_anchors`` (A), ``num_nonzeros``, ``weight_type``; tt: ``num_embeddings``,
            ``row_shape`` (I), ``col_shape`` (J), ``ranks`` (R).
        value_type: Type of codebooks, anchors or cores, ``float32`` or ``float16``; for dpq also ``int8``.
        padding_idx: The row that is exactly zero, or None.
        compression_ratio: Bits of the dense float32 table / bits of the packed form, by the formula of the method's
            paper.
        inference_bytes: Bytes of each tensor of the packed form, by name.
        total_inference_bytes: Bytes of all tensors of the packed form.
        session_bytes: Most session memory with the operator library.
        stored_bytes: Bytes of the table in this file; more than at inference while trainable.
        share: ``stored_bytes`` / bytes of all files.
        hash_status: ``no hash`` if verification was requested and the file holds no hash.
    """

    name: str
    method: str
    state: State
    num_embeddings: int
    embedding_dim: int
    attributes: Mapping[str, Any]
    value_type: str
    padding_idx: int | None
    compression_ratio: float
    inference_bytes: Mapping[str, int]
    total_inference_bytes: int
    stored_bytes: int
    share: float = 0.0
    hash_status: HashStatus = "not checked"
    session_bytes: int = 0


@dataclass
class DenseInfo:
    """One table or output layer that is not compressed; fields as in `TableInfo`, ``dtype`` by its numpy name."""

    name: str
    num_embeddings: int
    embedding_dim: int
    dtype: str
    stored_bytes: int
    share: float = 0.0


@dataclass(frozen=True)
class PortInfo:
    """One input or output of a model.

    Attributes:
        name: Its name.
        dtype: numpy's name, or empty if the file does not state it.
        shape: Sizes; a dynamic dimension is its name, or None without a name. The whole shape is None if the file does
            not state it.
    """

    name: str
    dtype: str
    shape: list[int | str | None] | None


@dataclass(frozen=True)
class OperatorInfo:
    """One of our operators in an ONNX file: the number of nodes that call it, and whether its body is there."""

    op_type: str
    nodes: int
    body: bool


@dataclass(frozen=True)
class DataFileInfo:
    """One file of external data.

    Attributes:
        name: Name in the model, relative to the model.
        bytes: Size of the file.
        tensors: Number of tensors in it.
        alignment: The largest power of two, 4096 at most, that divides the offset of every tensor.
    """

    name: str
    bytes: int
    tensors: int
    alignment: int


@dataclass(frozen=True)
class OnnxInfo:
    """Facts of an ONNX file, or of one in ORT format.

    Attributes:
        ir_version: Version of the file format.
        opsets: Version by domain; the standard domain is ``ai.onnx``.
        format_version: Version of our nodes and of the manifest; None if there are none.
        operators: Our operators, by type.
        data_files: External data.
    """

    ir_version: int
    opsets: Mapping[str, int]
    format_version: int | None
    operators: list[OperatorInfo]
    data_files: list[DataFileInfo]


@dataclass(frozen=True)
class TfliteInfo:
    """Facts of a TFLite file.

    Attributes:
        operators: Number of operators of each kind, by their names in the schema.
        layouts: Layout of each table in the file: ``pairs``, ``byte`` or ``direct`` for dpq, ``fixed`` or ``csr`` for
            ant, ``cores`` for tt.
        signatures: Inputs by the name of the signature.
    """

    operators: Mapping[str, int]
    layouts: Mapping[str, str]
    signatures: Mapping[str, list[PortInfo]]


@dataclass(frozen=True)
class TorchSaveInfo:
    """Facts of a ``torch.save`` file that can be read without running it.

    Attributes:
        contents: ``module``, ``state_dict``, ``checkpoint`` (weights among other things) or ``torchscript``.
        names: Classes and functions that loading it would import, in the order of the file.
        tensor_bytes: Bytes of all tensors, or None in the old format, which has no list of them.
    """

    contents: Literal["module", "state_dict", "checkpoint", "torchscript"]
    names: list[str]
    tensor_bytes: int | None


@dataclass(repr=False)
class FileReport(Shown):
    """The content of one file.

    Attributes:
        path: Path as it was given.
        kind: Kind of the content.
        file_bytes: Size of the file.
        total_bytes: Size of the file and its external data.
        verified: Whether verification was requested.
        tables: Compressed tables.
        dense: Dense tables and output layers of a saved model; for weights without a model, matrices that may be
            tables.
        other_bytes: All other bytes: the rest of the model, names, headers.
        inputs: Inputs of the model; a packed file has none.
        outputs: Outputs of the model.
        vocabulary_size: Tokens of the vocabulary in the file, None without vocabulary.
        metadata: The user's own strings.
        tokenizer: Facts about a tokenizer in front of the model: ``kind``, ``sha256``, ``num_ids``, ``ids`` (the input
            that it makes), ``pad_id``, ``max_length`` and others; None if there is none.
        onnx: For kinds ``onnx`` and ``ort``.
        torch_save: For kind ``torch_save``.
        tflite: For kind ``tflite``.
        source: Decisions about word vectors, and parts of the file that a model of them would lack.
        notes: Next steps for such a file.
        warnings: Changes by other tools that make it slower or tie it to one runtime.
        differences: Content that differs from what was written: exit code 3.
    """

    path: str
    kind: Kind
    file_bytes: int
    total_bytes: int
    verified: bool
    tables: list[TableInfo] = field(default_factory=list)
    dense: list[DenseInfo] = field(default_factory=list)
    other_bytes: int = 0
    inputs: list[PortInfo] = field(default_factory=list)
    outputs: list[PortInfo] = field(default_factory=list)
    vocabulary_size: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    tokenizer: Mapping[str, Any] | None = None
    onnx: OnnxInfo | None = None
    torch_save: TorchSaveInfo | None = None
    tflite: TfliteInfo | None = None
    source: SourceFacts = field(default_factory=SourceFacts)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        listed: list[TableInfo | DenseInfo] = [*self.tables, *self.dense]
        for entry in listed:
            entry.share = entry.stored_bytes / self.total_bytes
        # Two tables may be views of the same weights (another padding row): never below zero.
        self.other_bytes = max(0, self.total_bytes - sum(entry.stored_bytes for entry in listed))

    @property
    def exit_code(self) -> int:
        """Return 0, or 3 (as for ``ParityError``) if something differs."""
        return 3 if self.differences else 0

    def show(self, console: Console) -> None:
        """Print on a console. As with `Shown.view`, a result does not import its view."""
        import_module("edge_embed.inspection.render").render_file(self, console)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values, ready for ``json.dumps``."""
        return {"schema_version": SCHEMA_VERSION, "exit_code": self.exit_code, **asdict(self)}


def table_info(
    name: str,
    method: str,
    state: State,
    shape: TableShape,
    padding_idx: int | None,
    stored_bytes: int | None = None,
    hash_status: HashStatus = "not checked",
) -> TableInfo:
    """Describe a table by its sizes; ``stored_bytes`` is that of the packed form unless given."""
    return TableInfo(
        name=name,
        method=method,
        state=state,
        num_embeddings=shape.num_embeddings,
        embedding_dim=shape.embedding_dim,
        attributes=shape.attributes(),
        value_type=shape.value_type,
        padding_idx=padding_idx,
        compression_ratio=shape.compression_ratio,
        inference_bytes={key: _spec_bytes(spec) for key, spec in shape.tensor_specs().items()},
        total_inference_bytes=shape.nbytes,
        stored_bytes=shape.nbytes if stored_bytes is None else stored_bytes,
        hash_status=hash_status,
    )


def _spec_bytes(spec: TensorSpec) -> int:
    """Return the bytes of a tensor."""
    return math.prod(spec.shape) * np.dtype(spec.dtype).itemsize
