"""The packed tables of a ``.tflite`` file, from the tensors of their layouts, checked by the hashes in its manifest."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.bench.uses import USES, BenchUse, LiteRtBag, TfliteRuntimeBag
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import MANIFEST_KEY
from edge_embed.exporters.tflite.names import DELEGATE_KEY, LAYOUTS_KEY
from edge_embed.inspection.tflite_file import TfliteModel, read_tflite
from edge_embed.packed.ant_shape import ANTShape, anchor_id_type
from edge_embed.packed.bag import MODES
from edge_embed.packed.container import sha256
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.form import Packed
from edge_embed.packed.manifest import TableEntry, located, parse_manifest
from edge_embed.packed.methods import METHODS

_BYTE_VALUES = 256


class TfliteTables:
    """The tables of a file.

    Attributes:
        entries: what its manifest says of each, by name.
        layouts: how each lies in the file, by name.

    Raises:
        BadInputError: the file is damaged, or holds no table of this package.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._model = path, read_tflite(path)
        with located(str(path)):
            if MANIFEST_KEY not in self._model.metadata:
                raise BadInputError("holds no manifest of tables, expected a file of `edge-embed export`")
            self.entries = parse_manifest(self._model.metadata[MANIFEST_KEY], path.stat().st_size).tables
            self.layouts = {name: self._layout(name) for name in self.entries}

    def packed(self, name: str) -> Packed:
        """A table as it was packed.

        Raises:
            BadInputError: a tensor of it is not what was written.
        """
        entry, layout = self.entries[name], self.layouts[name]
        with located(f"{self._path}: table {name!r:.80}"):
            try:
                tensors = _tensors(_Stored(self._model, name), entry, layout)
            except (KeyError, ValueError, IndexError) as error:
                raise BadInputError(f"its tensors do not have the layout {layout!r:.80}: {error}") from error
            for tensor, digest in entry.sha256.items():
                if sha256(tensors[tensor]) != digest:
                    raise BadInputError(f"{tensor} differ from what was exported: export it again")
            return METHODS[entry.method].from_tensors(tensors, entry.shape.attributes(), entry.padding_idx)

    def uses(self, name: str) -> tuple[BenchUse, ...]:
        """Those that the file tells the delegate of; a look-up where it tells of none."""
        found: dict[BenchUse, None] = {}
        for line in self._model.metadata.get(DELEGATE_KEY, "").splitlines()[1:]:
            use, *words = line.split()
            fields = dict(word.split("=", 1) for word in words if "=" in word)
            if any(value.rpartition(".")[0] == name for key, value in fields.items() if key not in ("ids", "output")):
                found |= dict.fromkeys(_uses(use, fields))
        return tuple(found) or _uses("rows", {})

    def _layout(self, name: str) -> str:
        try:
            layout = json.loads(self._model.metadata[LAYOUTS_KEY])[name]["layout"]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise BadInputError(f"does not say how table {name!r:.80} lies in it: export it again") from error
        return str(layout)


def _uses(use: str, fields: Mapping[str, str]) -> tuple[BenchUse, ...]:
    """In each runtime."""
    if use != "bag":
        return USES["litert"], USES["tflite-runtime"]
    mode = {str(number): mode for number, mode in enumerate(MODES)}.get(fields.get("mode", ""), "mean")
    return LiteRtBag(mode), TfliteRuntimeBag(mode)


class _Stored:
    """The tensors of one table; what a layout adds at their ends is left out."""

    def __init__(self, model: TfliteModel, table: str) -> None:
        self._model, self._table = model, table

    def get(self, tensor: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """The first numbers of a tensor."""
        kind = np.dtype(dtype).newbyteorder("<")
        nbytes = int(np.prod(shape, dtype=object)) * kind.itemsize
        content = self._model.tensors[f"{self._table}.{tensor}"][:nbytes].tobytes()
        return np.frombuffer(content, kind).reshape(shape)

    def has(self, tensor: str) -> bool:
        """Whether it is there; a scale of 1 is left out."""
        return f"{self._table}.{tensor}" in self._model.tensors

    def nbytes(self, tensor: str) -> int:
        """Of a whole tensor."""
        return self._model.tensors[f"{self._table}.{tensor}"].nbytes


def _tensors(stored: _Stored, entry: TableEntry, layout: str) -> dict[str, NDArray[Any]]:
    shape, specs = entry.shape, entry.shape.tensor_specs()
    made: dict[str, NDArray[Any]] = {}
    if layout == "pairs":
        made["values"] = _values_of_pairs(stored, shape)  # type: ignore[arg-type]
    elif layout == "fixed":
        made |= _sparse_of_fixed(stored, shape)  # type: ignore[arg-type]
    if "weight_scale" in specs and not stored.has("weight_scale"):
        made["weight_scale"] = np.ones(1, np.float32)
    return {
        name: made[name] if name in made else stored.get(name, spec.dtype, tuple(spec.shape))
        for name, spec in specs.items()
    }


def _values_of_pairs(stored: _Stored, shape: DPQShape) -> NDArray[Any]:
    """Of each byte with one code and zeros around it, the part of that code: [D or 1, K, s]."""
    count, places = 8 // shape.bits, 1 if shape.shared else shape.row_bytes
    sides = stored.get("pairs", shape.value_type, (places, _BYTE_VALUES, count, shape.sub_dim))
    parts = [sides[:, np.arange(shape.num_codes) << shape.bits * at, at] for at in range(1 if shape.shared else count)]
    return np.stack(parts, 1).reshape(shape.num_value_tables, shape.num_codes, shape.sub_dim)


def _sparse_of_fixed(stored: _Stored, shape: ANTShape) -> dict[str, NDArray[Any]]:
    """Entries that do not point behind the anchors, and where those of each row begin."""
    kind = np.dtype(anchor_id_type(shape.num_anchors + 1))
    width = stored.nbytes("anchor_ids") // (shape.num_embeddings * kind.itemsize)
    ids = stored.get("anchor_ids", kind.name, (shape.num_embeddings, width))
    inside = ids < shape.num_anchors
    offsets = np.zeros(shape.num_embeddings + 1, np.int32)
    np.cumsum(inside.sum(1), out=offsets[1:])
    return {
        "row_offsets": offsets,
        "anchor_ids": ids[inside].astype(shape.anchor_id_type),
        "weights": stored.get("weights", shape.weight_type, ids.shape)[inside],
    }
