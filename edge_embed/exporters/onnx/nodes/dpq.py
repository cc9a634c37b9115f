"""Nodes of DPQ: ``DPQ...``, and ``DPQScaled...`` for tables whose rows have scales."""

from dataclasses import replace

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.nodes.schema import Attributes, NodeSchema, Specs, check_ranks, value_type
from edge_embed.packed.dpq_shape import DPQShape

TENSORS = ("codes", "values", "value_scales")
ROW_SCALES = ("row_scale_codes", "row_scales")


def _tensors(count: int) -> tuple[str, ...]:
    return TENSORS[: max(count, 2)]


def _scaled_tensors(count: int) -> tuple[str, ...]:
    """Return the tensors of the plain table, and the row scales if there are more than three."""
    return _tensors(count) if count <= len(TENSORS) else (*_tensors(count - len(ROW_SCALES)), *ROW_SCALES)


def table_shape(attributes: Attributes, tensors: Specs) -> DPQShape:
    """Return the sizes of a table, as `NodeSchema.shape` does."""
    check_ranks(tensors, {"codes": 2, "values": 3})
    codes, values = tensors["codes"], tensors["values"]
    num_groups, stored = attributes["num_groups"], values.shape[0]
    shared = stored == 1 and num_groups != 1
    dim = values.shape[2] * num_groups
    stored_type = "int8" if "value_scales" in tensors else value_type(values)
    check_ranks(tensors, {name: 1 for name in ROW_SCALES if name in tensors})
    num_row_scales = tensors["row_scales"].shape[0] if "row_scales" in tensors else 0
    unused = attributes.get("unused_columns", 0)
    sizes = num_groups, shared, stored_type, num_row_scales, unused
    shape = DPQShape(codes.shape[0], dim - unused, attributes["num_codes"], *sizes)
    if attributes["bits"] != shape.bits:
        raise BadInputError(f"bits: got {attributes['bits']}, expected {shape.bits} for {shape.num_codes} codes")
    return shape


DPQ = NodeSchema("DPQ", _tensors, ("format_version", "bits", "num_codes", "num_groups", "padding_idx"), table_shape)
SCALED_DPQ = replace(
    DPQ, prefix="DPQScaled", tensors=_scaled_tensors, attribute_names=(*DPQ.attribute_names, "unused_columns")
)
NODES = (DPQ, SCALED_DPQ)
