"""``quantization_config`` in the ``config.json`` of a compressed model: its tables, without their numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformers.quantizers.auto import register_quantization_config
from transformers.utils.quantization_config import QuantizationConfigMixin

from edge_embed.errors import BadInputError, located
from edge_embed.packed.manifest import TableEntry, parse_entry

METHOD = "edge_embed"
_VERSION = 1
_WHERE = "config.json: quantization_config"


@dataclass(frozen=True)
class StoredTable:
    """A table, as a folder declares it.

    Attributes:
        entry: method, sizes and hashes.
        layers: names of the layers that use the table, in the order of the model; the first one has its tensors.
        rotated: whether a rotation [d, d] belongs to the table.
    """

    entry: TableEntry
    layers: tuple[str, ...]
    rotated: bool


@register_quantization_config(METHOD)
class EdgeEmbedConfig(QuantizationConfigMixin):
    """Configuration of a model with compressed tables; `EdgeEmbedQuantizer` writes it.

    Args:
        tables: the tables by name: the entry of the packed format, ``layers`` and ``rotated``.
        format_version: version of this configuration.
        **unknown: ``quant_method``; other keys are refused.

    Raises:
        BadInputError: the version or a key is unknown.
    """

    def __init__(self, /, tables: Any = None, format_version: Any = _VERSION, **unknown: Any) -> None:
        with located(_WHERE):
            if type(format_version) is not int or format_version != _VERSION:
                expected = f"expected {_VERSION}; another release of edge_embed may read it"
                raise BadInputError(f"format_version: got {format_version!r:.80}, {expected}")
            if keys := sorted(unknown.keys() - {"quant_method"}):
                raise BadInputError(f"got the keys {keys!r:.200}, expected tables: another release may read them")
        self.quant_method: Any = METHOD  # transformers declares its own methods only
        self.format_version = format_version
        self.tables = {} if tables is None else tables

    def stored_tables(self) -> dict[str, StoredTable]:
        """Return the tables after a check of everything that is declared about them.

        Raises:
            BadInputError: a method, a key or a size is unknown or impossible.
        """
        with located(_WHERE):
            if not isinstance(self.tables, dict) or not self.tables:
                raise BadInputError(f"tables: got {self.tables!r:.80}, expected an object with at least one table")
            return {name: _parsed(name, content) for name, content in self.tables.items()}


def _parsed(name: str, content: Any) -> StoredTable:
    if not isinstance(content, Mapping):
        raise BadInputError(f"table {name!r:.80}: got {content!r:.80}, expected an object")
    rest = dict(content)
    layers, rotated = rest.pop("layers", None), rest.pop("rotated", None)
    if not isinstance(layers, list) or not layers or not all(isinstance(layer, str) for layer in layers):
        raise BadInputError(f"table {name!r:.80}: layers: got {layers!r:.80}, expected the names of its layers")
    if layers[0] != name:
        raise BadInputError(f"table {name!r:.80}: got the first layer {layers[0]!r:.80}, expected the table's name")
    if type(rotated) is not bool:
        raise BadInputError(f"table {name!r:.80}: rotated: got {rotated!r:.80}, expected true or false")
    return StoredTable(parse_entry(name, rest), tuple(layers), rotated)
