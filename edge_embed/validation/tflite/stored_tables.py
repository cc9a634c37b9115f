"""The contents of a TFLite file for each table, and the contents that an export of the model would write."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from edge_embed.errors import BadInputError, located
from edge_embed.exporters.exported import id_check_of
from edge_embed.exporters.onnx.names import MANIFEST_KEY
from edge_embed.exporters.tflite.dpq import TfliteTable
from edge_embed.exporters.tflite.manifest import delegate_metadata
from edge_embed.exporters.tflite.names import LAYOUTS_KEY
from edge_embed.exporters.tflite.program import UnsupportedError, translate
from edge_embed.exporters.tflite.table_uses import METHODS, Layout, stored_hashes
from edge_embed.inspection.tflite_file import TfliteModel, read_tflite
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.lowering.id_check import IdCheck
from edge_embed.packed.manifest import write_manifest
from edge_embed.packed.stored_names import table_of
from edge_embed.report.results.validation import Check
from edge_embed.validation.tflite.signatures import fixed_sizes


@dataclass(frozen=True)
class StoredFile:
    """A file and its expected contents.

    Attributes:
        model: the file.
        layouts: layout of each table in the file, by name; tables without a valid layout in the file are missing.
        hashes: SHA-256 by tensor, of an export of the model with these layouts.
        manifest: manifest of the model.
        delegate: metadata for the delegate, of an export of the model; empty if unknown.
        id_check: check of ids around lookups and bags, or None.
    """

    model: TfliteModel
    layouts: Mapping[str, Layout]
    hashes: Mapping[str, str]
    manifest: str
    delegate: Mapping[str, str]
    id_check: IdCheck | None = None

    def delegate_checks(self) -> tuple[Check, ...]:
        """Check the metadata for the delegate against an export of the model; no check if those are unknown."""
        name = "manifest of the delegate"
        if not self.delegate:
            return ()
        if self.delegate.items() <= self.model.metadata.items():
            return (Check(name, "passed", "as in an export of the model"),)
        return (Check(name, "failed", "it is missing or belongs to another model: export again"),)

    def checks(self, table: str) -> tuple[Check, ...]:
        """Return the checks of layout, stored rows and manifest of one table."""
        if table not in self.layouts:
            detail = "the layout of the table is missing or belongs to another model: export again"
            return (Check("layout", "failed", detail),)
        return Check("layout", "passed", self.layouts[table].name), self._rows(table), self._manifest()

    def _rows(self, table: str) -> Check:
        total = 0
        for tensor, digest in self.hashes.items():
            if table_of(tensor) != table:
                continue
            if tensor not in self.model.tensors:
                return Check("stored rows", "failed", f"no tensor {tensor}: another tool replaced it, export again")
            if self.model.sha256(tensor) != digest:
                return Check("stored rows", "failed", f"{tensor} differs from the model: export again")
            total += self.model.tensors[tensor].nbytes
        return Check("stored rows", "passed", f"{total:,} bytes identical")

    def _manifest(self) -> Check:
        if self.model.metadata.get(MANIFEST_KEY) == self.manifest:
            return Check("manifest", "passed", "sizes and SHA-256 as in the model")
        return Check("manifest", "failed", "it is missing or belongs to another model: export again")


def read_stored(path: Path, lowered: LoweredProgram) -> StoredFile:
    """Read a file, with the contents that the program it was made from would write.

    Raises:
        BadInputError: the file is missing or damaged.
    """
    stored, delegate = read_tables(path, lowered), dict[str, str]()
    with located(str(path)):
        id_check = id_check_of(stored.model.metadata)
    lowered = replace(lowered, id_check=id_check)
    # Otherwise the converter chooses the names of the tensors.
    if len(stored.layouts) == len(lowered.tables) and not fixed_sizes(lowered.program, stored.model):
        with suppress(UnsupportedError):
            delegate |= delegate_metadata(translate(lowered, stored.layouts).delegate)
    return replace(stored, delegate=delegate, id_check=id_check)


def read_tables(path: Path, lowered: LoweredProgram) -> StoredFile:
    """Read a file, with the packed tables that it must hold; nothing is expected of the delegate."""
    model = read_tflite(path)
    layouts, hashes = _layouts(lowered, model), dict[str, str]()
    for name, layout in layouts.items():
        hashes |= stored_hashes(name, lowered.tables[name], layout.name)
    return StoredFile(model, layouts, hashes, write_manifest(lowered.tables) if lowered.tables else "", {})


def _layouts(lowered: LoweredProgram, model: TfliteModel) -> dict[str, Layout]:
    """Return the layout that the file states for each table, if it is a possible one."""
    noted: Any = {}
    with suppress(ValueError, RecursionError):
        noted = json.loads(model.metadata.get(LAYOUTS_KEY, "{}"))
    layouts = {}
    for name, packed in lowered.tables.items():
        entry = noted.get(name) if isinstance(noted, dict) else None
        layout, method, possible = entry.get("layout") if isinstance(entry, dict) else None, METHODS[packed.method], []
        for wanted in get_args(TfliteTable):
            with suppress(BadInputError):
                possible.append(method.choose(packed, wanted))
        if layout in possible:
            layouts[name] = Layout(layout, method.table_bytes(packed, layout))
    return layouts
