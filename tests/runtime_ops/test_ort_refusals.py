"""Damaged ANT and TT tables, and types without a kernel: a clear error, never a wrong row."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from ort_nodes import AntTable, DpqTable, Int8DpqTable, TtTable, make_graph_input, open_session, run

USES = ["rows", "bag", "logits", "topk"]


def session_of(table: AntTable | TtTable, use: str, **tensors: np.ndarray) -> tuple:
    """Return a session and inputs that use row 17, among others."""
    if use == "rows":
        return open_session(table.model(tensors=tensors)), (np.array([[0, 17, 3]]),)
    if use == "bag":
        inputs = (np.array([0, 17, 3]), np.array([0, 1, 3]), np.zeros(0, np.float32))
        return open_session(table.bag_model(tensors=tensors)), inputs
    hidden = np.ones((2, table.dim), np.float32)
    if use == "topk":
        return open_session(table.topk_model(3, tensors=tensors)), (hidden, np.zeros(0, np.float32))
    return open_session(table.logits_model(tensors=tensors)), (hidden,)


def damaged(offset_17: int, table: AntTable) -> np.ndarray:
    offsets = table.tensors()["row_offsets"].copy()
    offsets[17] = offset_17
    return offsets


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("offset", [-1, -(2**31), 2**31 - 1])
def test_row_offsets_outside_weights_are_refused(use, offset):
    table = AntTable()
    session, inputs = session_of(table, use, row_offsets=damaged(offset, table))
    # An output layer reads row 16 first, which ends where 17 begins.
    row = 16 if use in ("logits", "topk") else 17
    with pytest.raises(
        Exception, match=rf"row {row} of the table cannot be read, the row_offsets .*export the model again"
    ):
        run(session, *inputs)


@pytest.mark.parametrize("use", USES)
def test_row_offsets_beyond_end_of_weights_are_refused(use):
    table = AntTable()
    offsets = table.tensors()["row_offsets"].copy()
    offsets[18:] = offsets[-1] + 1
    session, inputs = session_of(table, use, row_offsets=offsets)
    with pytest.raises(Exception, match="row 17 of the table cannot be read, the row_offsets"):
        run(session, *inputs)


@pytest.mark.parametrize("use", USES)
def test_anchor_id_out_of_range_is_refused(use):
    table = AntTable()
    tensors = table.tensors()
    ids = tensors["anchor_ids"].copy()
    ids[tensors["row_offsets"][17]] = 20
    session, inputs = session_of(table, use, anchor_ids=ids)
    with pytest.raises(Exception, match=r"row 17 of the table cannot be read, an anchor id .*not below num_anchors"):
        run(session, *inputs)


@pytest.mark.parametrize("use", USES)
def test_row_with_more_weights_than_anchors_is_refused(use):
    table = AntTable()
    offsets = table.tensors()["row_offsets"].copy()
    offsets[:18], offsets[18:] = 0, 21
    session, inputs = session_of(table, use, row_offsets=offsets)
    with pytest.raises(
        Exception, match="row 17 of the table cannot be read, a row has more weights than the table has anch"
    ):
        run(session, *inputs)


def test_first_damaged_row_is_named_over_several_threads():
    table = AntTable(num_embeddings=5000)
    ids = np.full((1, 20_000), 5)
    ids[0, [9000, 15_000]] = 17, 18
    offsets = damaged(-1, table)
    offsets[18] = -1
    session = open_session(table.model(tensors={"row_offsets": offsets}), threads=3)
    with pytest.raises(Exception, match="row 17 of the table"):
        run(session, ids)


@pytest.mark.parametrize(
    "tensors",
    [
        {"row_offsets": np.zeros(1, np.int32)},
        {"row_offsets": np.zeros((51, 1), np.int32)},
        {"anchor_ids": np.zeros(7, np.uint8)},
        {"weights": np.zeros(7, np.float32)},
        {"weight_scale": np.ones(2, np.float32)},
        {"weight_scale": np.float32(1)},
        {"anchors": np.zeros(20, np.float32)},
    ],
)
def test_ant_shapes_that_disagree_are_refused_at_load(tensors):
    named = (
        r"got row_offsets of shape .*, anchor_ids .*, weights .*, weight_scale .* and anchors .*, expected \[rows \+ 1"
    )
    with pytest.raises(Exception, match=f"ANTEmbedding: {named}"):
        open_session(AntTable().model(tensors={name: np.asarray(tensor) for name, tensor in tensors.items()}))


@pytest.mark.parametrize(
    ("scales", "got"),
    [
        (np.ones(5, np.float32), r"of shape \[5\]"),
        (np.ones(1, np.float32), r"of shape \[1\]"),
        (np.ones((6, 1), np.float32), r"of shape \[6, 1\]"),
        (np.float32(1), r"of shape \[\]"),
    ],
)
def test_scales_that_do_not_fit_are_refused_at_load(scales, got):
    with pytest.raises(Exception, match=rf"DPQEmbedding: got value_scales {got}, expected \[6\] with int8 values"):
        open_session(Int8DpqTable().model(tensors={"value_scales": np.asarray(scales)}))


def test_value_scales_are_accepted_with_int8_values_only():
    model = Int8DpqTable().model()
    del model.graph.node[0].input[-1]
    with pytest.raises(Exception, match=r"got no value_scales, expected \[6\] with int8 values"):
        open_session(model)
    with pytest.raises(Exception, match=r"got value_scales of shape \[6\], expected none, as the values are not int8"):
        open_session(DpqTable().model(tensors={"value_scales": np.ones(6, np.float32)}))


@pytest.mark.parametrize("shape", [(0, 24), (20, 0)])
def test_anchors_without_columns_are_refused_at_load(shape):
    with pytest.raises(Exception, match="every size of a table must be at least 1"):
        open_session(AntTable().model(tensors={"anchors": np.zeros(shape, np.float32)}))


@pytest.mark.parametrize(
    ("cores", "message"),
    [
        ({"core_1": np.zeros((4, 4, 3, 5))}, "the last size of a core must be the second size of the next"),
        ({"core_2": np.zeros((5, 5, 4, 2))}, "the last size of a core must be the second size of the next"),
        ({"core_0": np.zeros((2, 1, 2, 5))}, "multiply to fewer than num_embeddings rows; got num_embeddings=50"),
        ({"core_1": np.zeros((4, 5, 0, 5))}, "every size of a table must be at least 1"),
        ({"core_1": np.zeros((4, 5, 15))}, r"got core_1 of shape \[4, 5, 15\], expected \[rows, rank, columns, rank\]"),
    ],
)
def test_cores_that_do_not_fit_are_refused_at_load(cores, message):
    with pytest.raises(Exception, match=f"TTEmbedding: .*{message}"):
        open_session(TtTable().model(tensors={name: core.astype(np.float32) for name, core in cores.items()}))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"num_embeddings": 61}, "multiply to fewer than num_embeddings rows; got num_embeddings=61"),
        ({"num_embeddings": 0}, "every size of a table must be at least 1"),
        ({"num_embeddings": -(2**63)}, "every size of a table must be at least 1"),
        ({"padding_idx": 50}, "padding_idx must be -1 .*padding_idx=50"),
        ({"padding_idx": -2}, "padding_idx must be -1 .*padding_idx=-2"),
        ({"num_embeddings": None}, "got no integer attribute num_embeddings"),
        ({"format_version": 2}, "got format_version 2, expected 1 .*upgrade edge-embed"),
    ],
)
def test_wrong_attribute_of_core_table_is_refused_at_load(attributes, message):
    with pytest.raises(Exception, match=message):
        open_session(TtTable().model(**attributes))


def test_row_too_large_for_memory_is_an_error():
    # Cores of a few numbers each, whose product has 2^42 columns.
    table = TtTable(num_embeddings=1, row_shape=(1,) * 6, col_shape=(1,) * 6, rank=1)
    wide = {f"core_{k}": np.zeros((1, 1, 128, 1), np.float32) for k in range(6)}
    session = open_session(table.logits_model(tensors=wide))
    with pytest.raises(Exception, match=r"expected \[..., 4398046511104\]"):
        run(session, np.zeros((1, 1), np.float32))
    bags = open_session(table.bag_model(tensors=wide))
    with pytest.raises(Exception, match=r"(?i)alloc|memory"):
        run(bags, np.array([0]), np.array([0, 1]), np.zeros(0, np.float32))


def test_missing_core_in_the_middle_is_named():
    model = TtTable().model()
    model.graph.node[0].input[2] = ""
    with pytest.raises(Exception, match="TTEmbedding"):
        open_session(model)
    model = TtTable(row_shape=(2, 3, 3, 3), col_shape=(3, 2, 2, 2)).model()
    model.graph.node[0].input[3] = ""
    with pytest.raises(Exception, match="TTEmbedding: input core_2 is missing"):
        open_session(model)


@pytest.mark.parametrize(
    ("table", "tensor", "dtype", "message"),
    [
        (AntTable, "row_offsets", np.int64, "got row_offsets of type int64, expected int32"),
        (AntTable, "anchor_ids", np.int32, "got anchor_ids of type int32, expected uint8 or uint16 or uint32"),
        (AntTable, "weights", np.uint8, "got weights of type uint8, expected float32 or float16 or int8"),
        (AntTable, "weights", np.float64, "got weights of type number 11 of ONNX, expected float32 or float16 or int8"),
        (AntTable, "weight_scale", np.float16, "got weight_scale of type float16, expected float32"),
        (AntTable, "anchors", np.float64, "ANTEmbedding"),
        (Int8DpqTable, "value_scales", np.float16, "got value_scales of type float16, expected float32"),
        (Int8DpqTable, "values", np.uint8, "DPQEmbedding"),
        (TtTable, "core_0", np.float64, "TTEmbedding"),
        (TtTable, "core_1", np.float64, "got core_1 of type number 11 of ONNX, expected float32 or float16"),
        (TtTable, "core_1", np.float16, "got core_1 of shape .* and another type than core_0"),
    ],
)
def test_tensor_types_without_kernel_are_refused_at_load(table, tensor, dtype, message):
    made = table()
    with pytest.raises(Exception, match=message):
        open_session(made.model(tensors={tensor: made.tensors()[tensor].astype(dtype)}))


@pytest.mark.parametrize("ids_type", [TensorProto.FLOAT, TensorProto.INT16, TensorProto.BOOL, TensorProto.STRING])
def test_ids_of_other_types_are_refused_at_load(make_any, ids_type):
    with pytest.raises(Exception, match=r"Embedding: got ids of type .*, expected int32 or int64"):
        open_session(make_any().model(ids_type))
    with pytest.raises(Exception, match=r"EmbeddingBag: got ids of type .*, expected int32 or int64"):
        open_session(make_any().bag_model(ids_type=ids_type))


def test_offsets_and_sample_weights_of_other_types_are_refused(make_any):
    model = make_any().bag_model()
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.INT32
    with pytest.raises(Exception, match="got offsets of type int32, expected int64"):
        open_session(model)
    model = make_any().bag_model(weighted=1)
    model.graph.input[2].type.tensor_type.elem_type = TensorProto.FLOAT16
    with pytest.raises(Exception, match=r"got sample_weights of shape \[1\] and another type, expected \[1\]"):
        run(open_session(model), np.array([0]), np.array([0, 1]), np.ones(1, np.float16))


def test_sequence_in_place_of_table_is_refused():
    model = make_graph_input(AntTable().model())
    floats = onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    model.graph.input[3].type.CopyFrom(onnx.helper.make_sequence_type_proto(floats))
    with pytest.raises(Exception, match="ANTEmbedding"):
        open_session(model)


def test_cores_beyond_largest_number_are_refused_at_load():
    with pytest.raises(Exception, match="TTEmbedding"):
        open_session(TtTable().model(tensors={f"core_{k}": np.ones((1, 1, 1, 1), np.float32) for k in range(3, 7)}))
