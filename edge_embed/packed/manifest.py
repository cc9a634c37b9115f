"""Manifest of a packed file: a description of each table as canonical JSON, with a hash over itself."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge_embed.errors import BadInputError, located
from edge_embed.packed.container import sha256
from edge_embed.packed.ids import check_padding_idx
from edge_embed.packed.packed_form import METHODS, PackedTable, TableShape, TensorSpec

FORMAT_VERSION = 1
_RESERVED = {"row_scale": None, "group_widths": None}
_TABLE_KEYS = {"method", "num_embeddings", "embedding_dim", "padding_idx", "attributes", "sha256", "value_type"}
_TABLE_KEYS |= _RESERVED.keys()


@dataclass(frozen=True)
class TableEntry:
    """One table, as its file declares it.

    Attributes:
        method: A key of ``METHODS``.
        shape: All sizes, checked.
        padding_idx: The row that is exactly zero, or None.
        sha256: SHA-256 of the stored bytes of each tensor, in hex.
    """

    method: str
    shape: TableShape
    padding_idx: int | None
    sha256: Mapping[str, str]


@dataclass(frozen=True)
class Manifest:
    """All tables of a file, sorted by name.

    Attributes:
        tables: Entries by name of the table.
        file_bytes: Size of the file.
    """

    tables: Mapping[str, TableEntry]
    file_bytes: int

    def tensor_specs(self) -> dict[str, TensorSpec]:
        """Return the specs of all tensors that the file must hold, named ``table/tensor``."""
        return {
            f"{name}/{tensor}": spec
            for name, entry in self.tables.items()
            for tensor, spec in entry.shape.tensor_specs().items()
        }


def write_manifest(tables: Mapping[str, PackedTable], before: str | None = None) -> str:
    """Return the manifest of some tables.

    Args:
        tables: Tables by name.
        before: A valid manifest, whose tables, of other names, are included.

    Raises:
        BadInputError: There is no table, or a name cannot be used.
    """
    if not tables:
        raise BadInputError("no tables to save, expected at least one")
    entries = {} if before is None else dict(json.loads(before)["tables"])
    for name, table in tables.items():
        _check_name(name)
        entries[name] = describe(table)
    return _canonical({"format_version": FORMAT_VERSION, "tables": entries, "sha256": _hash(entries)})


def describe(table: PackedTable) -> dict[str, Any]:
    """Return the entry of a table in a manifest."""
    return {
        "method": table.method,
        "num_embeddings": table.num_embeddings,
        "embedding_dim": table.embedding_dim,
        "padding_idx": table.padding_idx,
        "attributes": table.attributes(),
        "sha256": {tensor: sha256(array) for tensor, array in table.tensors().items()},
        "value_type": table.value_type,
        **_RESERVED,
    }


def parse_manifest(text: str, file_bytes: int) -> Manifest:
    """Parse a manifest.

    Raises:
        BadInputError: It is damaged, of another version, or contains keys or values unknown to this version.
    """
    content = _parse_json(text)
    version = content.get("format_version") if isinstance(content, dict) else None
    if type(version) is not int or version != FORMAT_VERSION:
        expected = f"expected {FORMAT_VERSION}; another release of edge_embed may read it"
        raise BadInputError(f"format_version: got {version!r:.80}, {expected}")
    content = _exact_keys(content, {"format_version", "tables", "sha256"}, "manifest")
    tables = content["tables"]
    if content["sha256"] != _hash(tables):
        expected = f"expected {content['sha256']!r:.80}: it is damaged"
        raise BadInputError(f"manifest: its hash is {_hash(tables)}, {expected}")
    if not isinstance(tables, dict) or not tables:
        raise BadInputError(f"tables: got {tables!r:.80}, expected an object with at least one table")
    return Manifest({name: parse_entry(name, entry) for name, entry in tables.items()}, file_bytes)


def parse_entry(name: str, content: Any) -> TableEntry:
    """Return a table as its entry (`describe`) declares it.

    Raises:
        BadInputError: a key or value is unknown to this version, or impossible.
    """
    _check_name(name)
    with located(f"table {name!r}"):
        content = _exact_keys(content, _TABLE_KEYS, "entry")
        for key, only in _RESERVED.items():
            if content[key] != only:
                expected = f"expected {only!r}; other values are reserved and not supported yet"
                raise BadInputError(f"{key}: got {content[key]!r:.80}, {expected}")
        method = content["method"]
        if not isinstance(method, str) or method not in METHODS:
            raise BadInputError(f"method: got {method!r:.80}, expected one of {sorted(METHODS)}")
        if not isinstance(content["attributes"], dict):
            raise BadInputError(f"attributes: got {content['attributes']!r:.80}, expected an object")
        form, rows, columns = METHODS[method], content["num_embeddings"], content["embedding_dim"]
        shape = form.shape_from(rows, columns, content["attributes"], content["value_type"])
        check_padding_idx(content["padding_idx"], shape.num_embeddings)
        hashes = _exact_keys(content["sha256"], set(shape.tensor_specs()), "sha256")
        for tensor, text in hashes.items():
            if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{64}", text):
                raise BadInputError(f"sha256: {tensor}: got {text!r:.80}, expected 64 lower-case hex digits")
        return TableEntry(method, shape, content["padding_idx"], hashes)


def _check_name(name: str) -> None:
    """Raise unless a name is printable and has no separator: it is printed on terminals and joined to tensor names."""
    if not name or "/" in name or not name.isprintable():
        raise BadInputError(f"table name: got {name!r:.80}, expected printable text without '/'")


def _hash(tables: Any) -> str:
    return hashlib.sha256(_canonical(tables).encode()).hexdigest()


def _canonical(value: Any) -> str:
    """Return canonical JSON: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _parse_json(text: str) -> Any:
    """Parse canonical JSON. It has no duplicate keys: the text encoded again would lack the first of them."""
    try:
        value = json.loads(text)
        is_canonical = _canonical(value) == text
    except (ValueError, RecursionError) as error:  # bad JSON, a number of 5,000 digits, or brackets 1,000 deep
        raise BadInputError(f"manifest is not valid JSON: {error}") from error
    if not is_canonical:
        raise BadInputError("manifest is not canonical JSON (sorted keys, no spaces, ASCII)")
    return value


def _exact_keys(value: Any, names: set[str], what: str) -> dict[str, Any]:
    """Raise unless the value is an object with exactly these keys."""
    if not isinstance(value, dict):
        raise BadInputError(f"{what}: got {value!r:.80}, expected an object")
    if value.keys() != names:
        missing, unknown = sorted(names - value.keys()), sorted(value.keys() - names)
        raise BadInputError(f"{what}: missing keys {missing}, unknown keys {unknown}, expected {sorted(names)}")
    return value
