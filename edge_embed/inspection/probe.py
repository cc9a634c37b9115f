"""Smallest model that only the operator library can run: one node, no portable body.

The model is written without the package onnx, which is not needed to run models. The numbers are those of the fields in
onnx.proto.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, IR_VERSION, OPSET
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.manifest import FORMAT_VERSION


def probe_table() -> PackedDPQ:
    """Return seven rows of 3 groups, K = 5 (codes of 3 bits cross bytes), row 2 padding."""
    codes = np.arange(21).reshape(7, 3) * 3 % 5  # [n, D]
    values = np.linspace(-1, 1, 3 * 5 * 2, dtype=np.float32).reshape(3, 5, 2)  # [D, K, s]
    return PackedDPQ.from_codes(codes, values, padding_idx=2)


_FLOAT, _INT64, _UINT8 = 1, 7, 2  # TensorProto.DataType
_INT = 2  # AttributeProto.AttributeType


def probe_model(table: PackedDPQ) -> bytes:
    """Return the model: ``ids`` int64 [batch, sequence] -> ``rows``, from the table."""
    attributes = {
        "format_version": FORMAT_VERSION,
        "bits": table.bits,
        "num_codes": table.num_codes,
        "num_groups": table.num_groups,
        "padding_idx": -1 if table.padding_idx is None else table.padding_idx,
    }
    node = _message(
        *((1, name) for name in ("ids", "codes", "values")),
        (2, "rows"),
        (4, "DPQEmbedding"),
        *((5, _message((1, name), (3, value), (20, _INT))) for name, value in attributes.items()),
        (7, DOMAIN),
    )
    graph = _message(
        (1, node),
        (2, "probe"),
        (5, _tensor("codes", table.codes, _UINT8)),
        (5, _tensor("values", table.values, _FLOAT)),
        (11, _value("ids", _INT64, ["batch", "sequence"])),
        (12, _value("rows", _FLOAT, ["batch", "sequence", "column"])),
    )
    opsets = (_message((1, domain), (2, version)) for domain, version in (("", OPSET), (DOMAIN, DOMAIN_VERSION)))
    return _message((1, IR_VERSION), (7, graph), *((8, opset) for opset in opsets))


def _tensor(name: str, array: NDArray[Any], data_type: int) -> bytes:
    return _message(*((1, size) for size in array.shape), (2, data_type), (8, name), (9, array.tobytes()))


def _value(name: str, element: int, sizes: list[str]) -> bytes:
    shape = _message(*((1, _message((2, size))) for size in sizes))
    return _message((1, name), (2, _message((1, _message((1, element), (2, shape))))))


def _message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Encode a protobuf message from fields with their numbers: varints, texts and messages."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(_varint(number << 3) + _varint(value % 2**64))
        else:
            content = value.encode() if isinstance(value, str) else value
            parts.append(_varint(number << 3 | 2) + _varint(len(content)) + content)
    return b"".join(parts)


def _varint(value: int) -> bytes:
    """Encode a number with seven bits a byte, the lowest first; all bytes but the last have the highest bit set."""
    low = value & 127
    return bytes([low]) if value == low else bytes([low | 128]) + _varint(value >> 7)
