"""Sizes of the parts of an exported file: every byte is counted once, so the parts sum to the size of all files."""

from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from onnx import TensorProto

from edge_embed.exporters.onnx.model_file import ExternalTensor, tensors_of_graph
from edge_embed.exporters.onnx.names import MANIFEST_KEY, VOCABULARY_KEY
from edge_embed.packed.stored_names import stored_name
from edge_embed.report.results.byte_parts import FILE_PARTS, SizePart
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.tables import Table

_METADATA = {MANIFEST_KEY: "manifest", VOCABULARY_KEY: "vocabulary"}


class _Owner(NamedTuple):
    """Owner of a tensor: a table and the name of the tensor in it, or the file."""

    table: str | None
    name: str


def file_parts(exported: ExportedModel, tables: Iterable[Table]) -> tuple[SizePart, ...]:
    """Return the parts of all files of a model, those of its tables first."""
    owners = {
        stored_name(table.name, tensor): _Owner(table.name, tensor)
        for table in tables
        for tensor in table.packed.tensors()
    }
    found: Counter[_Owner] = Counter(dict.fromkeys(owners.values(), 0))
    external: list[tuple[str, int, int, _Owner]] = []
    for tensor in tensors_of_graph(exported.proto.graph):
        owner = owners.get(tensor.name, _Owner(None, "dense"))
        if tensor.data_location == TensorProto.EXTERNAL:
            place = ExternalTensor(exported.path.parent, tensor)
            external.append((place.name, place.begin, place.begin + place.nbytes, owner))
        else:
            found[owner] += _inline_bytes(tensor)
    for item in exported.proto.metadata_props:
        found[_Owner(None, _METADATA.get(item.key, "metadata"))] += len(item.key.encode()) + len(item.value.encode())
    found[_Owner(None, "bodies")] = sum(body.ByteSize() for body in exported.proto.functions)
    found[_Owner(None, "graph")] = exported.path.stat().st_size - found.total()
    found.update(_external_bytes(external))
    files = sum(path.stat().st_size for path in exported.files)
    found[_Owner(None, "padding")] = files - found.total()
    ordered = [*dict.fromkeys(owners.values()), *(_Owner(None, name) for name in FILE_PARTS)]
    return tuple(SizePart(*owner, found[owner]) for owner in ordered)


def _inline_bytes(tensor: TensorProto) -> int:
    """Return the bytes of a tensor in the model file; numbers in typed fields have no fixed length."""
    return len(tensor.raw_data) if tensor.HasField("raw_data") else tensor.ByteSize()


def _external_bytes(ranges: list[tuple[str, int, int, _Owner]]) -> Counter[_Owner]:
    """Count the bytes of tensors in external files; bytes that two tensors share belong to the first."""
    found: Counter[_Owner] = Counter()
    reached: dict[str, int] = {}
    for name, begin, end, owner in sorted(ranges, key=itemgetter(0, 1, 2)):
        start = max(begin, reached.get(name, 0))
        found[owner] += max(0, end - start)
        reached[name] = max(end, start)
    return found
