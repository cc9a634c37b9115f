"""The functions that a compression method supplies to the TFLite exporter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.stored_table import StoredTable

Fields = Mapping[str, str | int | tuple[int, ...]]


@dataclass(frozen=True)
class TfliteMethod:
    """The part of one method in the TFLite target.

    Attributes:
        name: name of the method at every stage.
        choose: returns the layout of a packed table in the file: (packed, the user's choice for DPQ).
        table_bytes: returns the bytes of the file beyond the packed form in that layout: (packed, layout).
        rows: adds the lookup of rows [*ids, d], with ids in the stored order: (graph, name of the table, packed, ids,
            layout).
        read: returns tensors of the packed form that the file stores in another form or omits, by name: (the table's
            tensors in the file, sizes of the packed form, layout).
        fields: returns the fields of a table in the delegate's manifest, or None if no kernel reads that layout: (name
            of the table, packed, layout).
    """

    name: str
    choose: Callable[[Any, str], str]
    table_bytes: Callable[[Any, str], int]
    rows: Callable[[Graph, str, Any, Tensor, str], Tensor]
    read: Callable[[StoredTable, Any, str], Mapping[str, NDArray[Any]]]
    fields: Callable[[str, Any, str], Fields | None]
