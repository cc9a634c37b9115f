"""Packed tables of a ``.tflite`` file, from the tensors of their layouts, checked by the hashes in its manifest."""

import json
from collections.abc import Mapping
from pathlib import Path

from edge_embed.bench.uses import USES, BenchUse, LiteRtBag, TfliteRuntimeBag
from edge_embed.errors import BadInputError, located
from edge_embed.exporters.onnx.names import MANIFEST_KEY
from edge_embed.exporters.tflite.names import DELEGATE_KEY, LAYOUTS_KEY
from edge_embed.exporters.tflite.table_uses import read_tensors
from edge_embed.inspection.tflite_file import read_tflite
from edge_embed.packed.bag import MODES
from edge_embed.packed.container import sha256
from edge_embed.packed.manifest import parse_manifest
from edge_embed.packed.packed_form import METHODS, PackedTable
from edge_embed.packed.stored_names import table_of


class TfliteTables:
    """Tables of a file.

    Attributes:
        entries: manifest entry of each table, by name.
        layouts: layout of each table in the file, by name.

    Raises:
        BadInputError: the file is damaged, or holds no table of this package.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._model = path, read_tflite(path)
        with located(str(path)):
            if MANIFEST_KEY not in self._model.metadata:
                raise BadInputError("contains no manifest of tables, expected a file of `edge-embed export`")
            self.entries = parse_manifest(self._model.metadata[MANIFEST_KEY], path.stat().st_size).tables
            self.layouts = {name: self._layout(name) for name in self.entries}

    def packed(self, name: str) -> PackedTable:
        """Return a table as it was packed.

        Raises:
            BadInputError: a tensor of it differs from the one that was written.
        """
        entry, layout = self.entries[name], self.layouts[name]
        with located(f"{self._path}: table {name!r:.80}"):
            try:
                tensors = read_tensors(self._model.tensors, name, entry, layout)
            except (KeyError, ValueError, IndexError) as error:
                raise BadInputError(f"expected tensors of the layout {layout!r:.80}: {error}") from error
            for tensor, digest in entry.sha256.items():
                if sha256(tensors[tensor]) != digest:
                    raise BadInputError(f"{tensor}: the bytes differ from the exported ones; export the model again")
            return METHODS[entry.method].from_tensors(tensors, entry.shape.attributes(), entry.padding_idx)

    def uses(self, name: str) -> tuple[BenchUse, ...]:
        """Return the uses in the delegate's metadata; a lookup if it has none."""
        found: dict[BenchUse, None] = {}
        for line in self._model.metadata.get(DELEGATE_KEY, "").splitlines()[1:]:
            use, *words = line.split()
            fields = dict(word.split("=", 1) for word in words if "=" in word)
            if any(table_of(value) == name for key, value in fields.items() if key not in ("ids", "output")):
                found |= dict.fromkeys(_uses(use, fields))
        return tuple(found) or _uses("rows", {})

    def _layout(self, name: str) -> str:
        try:
            layout = json.loads(self._model.metadata[LAYOUTS_KEY])[name]["layout"]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise BadInputError(
                f"table {name!r:.80}: the layout is missing from the metadata; export the model again"
            ) from error
        return str(layout)


def _uses(use: str, fields: Mapping[str, str]) -> tuple[BenchUse, ...]:
    """Return a use for each runtime."""
    if use != "bag":
        return USES["litert"], USES["tflite-runtime"]
    mode = {str(number): mode for number, mode in enumerate(MODES)}.get(fields.get("mode", ""), "mean")
    return LiteRtBag(mode), TfliteRuntimeBag(mode)
