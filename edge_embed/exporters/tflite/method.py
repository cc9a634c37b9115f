"""What a compression method tells the TFLite exporter about itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.stored_table import StoredTable

Fields = Mapping[str, str | int | tuple[int, ...]]


@dataclass(frozen=True)
class TfliteMethod:
    """One method's part in the TFLite target.

    Attributes:
        name: the word for the method at every stage.
        choose: the layout of a packed table in the file, from (packed, what the user wants for DPQ).
        table_bytes: what the file has beyond the packed form in that layout: (packed, layout).
        rows: adds the look-up of rows [*ids, d], whose ids are those of the stored order: (graph, name of the table,
            packed, ids, layout).
        read: tensors of the packed form that the file has in another form or not at all, by name, from (what the file
            has of the table, sizes of the packed form, layout).
        fields: what the delegate's manifest says of a table, None where no kernel reads that layout: (name of the
            table, packed, layout).
    """

    name: str
    choose: Callable[[Any, str], str]
    table_bytes: Callable[[Any, str], int]
    rows: Callable[[Graph, str, Any, Tensor, str], Tensor]
    read: Callable[[StoredTable, Any, str], Mapping[str, NDArray[Any]]]
    fields: Callable[[str, Any, str], Fields | None]
