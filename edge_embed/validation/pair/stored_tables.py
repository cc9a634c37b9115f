"""The packed tables of an exported file, read from its manifest and tensors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, located
from edge_embed.fitting.fitted_table import ROTATION, Stored
from edge_embed.packed.container import sha256
from edge_embed.packed.manifest import Manifest, TableEntry
from edge_embed.packed.packed_form import METHODS
from edge_embed.packed.stored_names import stored_name
from edge_embed.report.results.validation import Check
from edge_embed.validation.exported_file import ExportedModel

MANIFEST = "manifest"


def packed_tables(exported: ExportedModel) -> dict[str, Stored]:
    """Return all tables of a file, in the order of its manifest; `manifest_check` checks the hashes.

    Raises:
        BadInputError: tensors of a table have another type or shape than the manifest states.
    """
    if exported.manifest is None:
        return {}
    return {name: _stored(exported, name, entry) for name, entry in exported.manifest.tables.items()}


def manifest_check(manifest: Manifest, name: str, stored: Stored) -> Check:
    """Check that the tensors of a table have the hashes of the manifest."""
    for tensor, array in stored.plain.tensors().items():
        expected, got = manifest.tables[name].sha256[tensor], sha256(array)
        if got != expected:
            detail = f"{tensor}: got SHA-256 {got}, expected {expected}: it was changed, compress the original again"
            return Check(MANIFEST, "failed", detail)
    return Check(MANIFEST, "passed", "sizes and SHA-256 of every tensor")


def _stored(exported: ExportedModel, name: str, entry: TableEntry) -> Stored:
    with located(f"{exported.path}: table {name}"):
        tensors = {}
        for tensor, spec in entry.shape.tensor_specs().items():
            found = exported.spec(stored_name(name, tensor))
            if found != spec:
                got = "none" if found is None else f"{found.dtype} {list(found.shape)}"
                expected = f"expected {spec.dtype} {list(spec.shape)} of its manifest"
                raise BadInputError(f"{tensor}: got {got}, {expected}: another tool changed it, compress again")
            tensors[tensor] = _array(exported, stored_name(name, tensor))
        packed = METHODS[entry.method].from_tensors(tensors, entry.shape.attributes(), entry.padding_idx)
    turn = stored_name(name, ROTATION)
    return Stored(packed, None if exported.spec(turn) is None else _array(exported, turn))


def _array(exported: ExportedModel, name: str) -> NDArray[Any]:
    spec = exported.spec(name)
    assert spec is not None
    content = b"".join(exported.blocks(name))
    return np.frombuffer(content, np.dtype(spec.dtype).newbyteorder("<")).reshape(spec.shape)
