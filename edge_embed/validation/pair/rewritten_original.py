"""The output of `compress` for an original with given packed tables: the same replacement, made again in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from edge_embed.compression.onnx.dense_tables import OnnxTable, dense_tables, weight_of
from edge_embed.compression.onnx.foreign_model import ForeignModel, read_foreign
from edge_embed.compression.onnx.free_names import in_manifest
from edge_embed.compression.onnx.opset import raise_opset
from edge_embed.compression.onnx.replace import metadata_of, replace_tables
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.model_file import damaged
from edge_embed.exporters.onnx.names import MANIFEST_KEY
from edge_embed.fitting.fitted_table import Stored
from edge_embed.fitting.found_table import FoundTable
from edge_embed.packed.manifest import parse_manifest
from edge_embed.report.results.fidelity_promise import Promise

Found = TypeVar("Found", bound=FoundTable)


@dataclass(frozen=True)
class Rewritten:
    """An original with packed tables.

    Attributes:
        file: the original, with its model changed; its weights stay in their files.
        tables: the packed tables added to it, by name in the manifest.
        dense: the dense tables that they replace, float [n, d], by the same names.
    """

    file: ForeignModel
    tables: Mapping[str, Stored]
    dense: Mapping[str, Tensor]


def rewrite(
    original: Path, compressed: Path, tables: Mapping[str, Stored], promises: Mapping[str, Promise]
) -> Rewritten:
    """Compress an original again, with the tables of the compressed file.

    Args:
        original: an ONNX file of any tool.
        compressed: path of the compressed file, for messages.
        tables: all packed tables of the compressed file, by name in its manifest.
        promises: the fidelity that `compress` reported for them.

    Raises:
        BadInputError: the original is damaged, or lacks a dense table for a packed one.
    """
    file = read_foreign(original)
    with damaged(original):
        text = metadata_of(file.model, MANIFEST_KEY)
        before = {} if text is None else parse_manifest(text, 0).tables
        new = {name: stored for name, stored in tables.items() if name not in before}
    if not new:
        raise no_table(original, compressed)
    with damaged(original):
        raise_opset(file)
        found = [table for table in dense_tables(file) if not table.reason]
    made = assigned(found, new, promises, original, compressed)
    with damaged(original):
        dense = {name: weight_of(table) for table, name in made.items()}
        names = replace_tables(file.model, file.opset, {table: new[name] for table, name in made.items()})
    _check_names(names, made, original, compressed)
    return Rewritten(file, new, dense)


def no_table(original: Path, compressed: Path) -> BadInputError:
    """Return the error for two files of which the second has no additional table."""
    return BadInputError(
        f"{compressed}: contains no other compressed tables than {original}: give the original, then the file "
        "that `edge-embed compress` wrote from it"
    )


def assigned(
    found: Sequence[Found],
    packed: Mapping[str, Stored],
    promises: Mapping[str, Promise],
    original: Path,
    compressed: Path,
) -> dict[Found, str]:
    """Return the dense tables that packed ones replace, with names of the packed ones, in the order of the original.

    Raises:
        BadInputError: there is no packed table, or one has no dense counterpart.
    """
    made: dict[str, Found] = {}
    for name in sorted(packed, key=lambda name: (len(name), name)):
        left = [table for table in found if table not in made.values()]
        sizes = packed[name].plain.num_embeddings, packed[name].plain.embedding_dim
        fits = [table for table in left if _is_named(table, name, promises) and tuple(table.weight.shape) == sizes]
        if not fits:
            shown = ", ".join(f"{table.name} {list(table.weight.shape)}" for table in found) or "none"
            raise BadInputError(
                f"{compressed}: compressed table {name} {list(sizes)} has no dense table in {original}, which "
                f"contains {shown}: give the file that was compressed"
            )
        made[name] = fits[0]
    by_table = {table: name for name, table in made.items()}
    return {table: by_table[table] for table in found if table in by_table}


def _is_named(table: FoundTable, name: str, promises: Mapping[str, Promise]) -> bool:
    if name in promises:
        return promises[name].table == table.name
    wanted = in_manifest(table.name)
    return name == wanted or (name.startswith(f"{wanted}_") and name.removeprefix(f"{wanted}_").isdigit())


def _check_names(got: Mapping[str, str], wanted: Mapping[OnnxTable, str], original: Path, compressed: Path) -> None:
    for table, name in wanted.items():
        if got[table.name] != name:
            raise BadInputError(
                f"{compressed}: got a table named {name}, expected {got[table.name]} as from `edge-embed compress` of "
                f"{original}: give the file that was compressed"
            )
