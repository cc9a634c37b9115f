"""The TFLite delegate in both runtimes of the format: rows of every table, and refusals."""

import numpy as np
import pytest
from ort_nodes import TABLES, AntTable, DpqTable, Int8DpqTable, TtTable, assert_close, assert_same_bits
from tflite_models import Model, add_rows, add_table, line, manifest, rows_model


def short(table):
    return f"{table.name}-{np.dtype(table.dtype)}-{table.dim}"


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_of_every_method_match_definition(tflite, tmp_path, make_any, dtype):
    table = make_any(padding_idx=3)
    model = rows_model(tmp_path / "model.tflite", table, dtype)
    small, large = np.array([[49]], dtype), np.arange(50).repeat(10).reshape(5, 100).astype(dtype)
    results = tflite.run(model, [small], [large], [small])
    assert results.replaced == 1
    for ids, (rows,) in zip((small, large, small), results.outputs, strict=True):
        assert_close(rows, np.float32, table.rows64[ids], table.magnitudes[ids])
    assert not results.outputs[1][0][large == 3].any()


@pytest.mark.parametrize(
    "table",
    [
        DpqTable(num_codes=2, num_groups=9),
        DpqTable(num_codes=300, num_groups=5, shared=True),
        DpqTable(dtype=np.float16),
        Int8DpqTable(num_codes=10),
        Int8DpqTable(shared=True),
    ],
    ids=short,
)
def test_dpq_of_every_form_is_exact(tflite, tmp_path, table):
    ids = np.arange(50, dtype=np.int32).reshape(2, 25)
    results = tflite.run(rows_model(tmp_path / "model.tflite", table), [ids])
    assert results.replaced == 1
    assert_same_bits(results.outputs[0][0], table.rows64[ids].astype(np.float32))


@pytest.mark.parametrize(
    "table",
    [
        AntTable(dtype=np.float16, weight_dtype=np.float16),
        AntTable(weight_dtype=np.int8, id_dtype=np.uint16),
        AntTable(num_anchors=300, id_dtype=np.uint32),
        TtTable(dtype=np.float16),
        TtTable(row_shape=(7, 8), col_shape=(3, 5), ring=2),
        TtTable(row_shape=(2, 2, 3, 5), col_shape=(2, 1, 3, 2), rank=3),
    ],
    ids=short,
)
def test_ant_and_tt_of_every_form_match_definition(tflite, tmp_path, table):
    ids = np.arange(50, dtype=np.int32).reshape(2, 25)
    results = tflite.run(rows_model(tmp_path / "model.tflite", table), [ids])
    assert results.replaced == 1
    assert_close(results.outputs[0][0], np.float32, table.rows64[ids], table.magnitudes[ids])


def test_numbers_stored_under_type_of_same_size_are_read(tflite, tmp_path):
    """Some TFLite operators accept no unsigned numbers or float16, so files store such bits as another type."""
    table = AntTable(id_dtype=np.uint16, dtype=np.float16, weight_dtype=np.float16)
    stored = {name: content.view(np.int16) for name, content in table.tensors().items() if content.dtype.itemsize == 2}
    assert len(stored) == 3
    ids = np.arange(50, dtype=np.int32).reshape(5, 10)
    results = tflite.run(rows_model(tmp_path / "model.tflite", table, **stored), [ids])
    assert_close(results.outputs[0][0], np.float32, table.rows64[ids], table.magnitudes[ids])


def test_rows_of_one_width_need_no_offsets(tflite, tmp_path):
    """Standard operators read ANT best as [n, m], with a zero anchor for unused places of a row."""
    table = AntTable()
    width = max(np.count_nonzero(table.transform, axis=1))
    anchor_ids = np.full((50, width), table.num_anchors, np.uint8)
    weights = np.zeros((50, width), np.float32)
    for row, found in enumerate(map(np.flatnonzero, table.transform)):
        anchor_ids[row, : len(found)], weights[row, : len(found)] = found, table.transform[row, found]
    tensors = {
        "anchor_ids": anchor_ids,
        "weights": weights,
        "anchors": np.concatenate((table.anchors, np.zeros_like(table.anchors[:1]))),
    }
    sizes = {"num_anchors": 21, "num_weights": weights.size, "row_width": width, "row_offsets": None}
    text = manifest(line("rows", table, ids="ids", output="rows", **sizes))
    ids = np.arange(50, dtype=np.int32).reshape(5, 10)
    results = tflite.run(rows_model(tmp_path / "model.tflite", table, text=text, **tensors), [ids])
    assert results.replaced == 1
    assert_close(results.outputs[0][0], np.float32, table.rows64[ids], table.magnitudes[ids])


def test_ids_out_of_range_are_an_error_with_and_without_delegate(tflite, tmp_path, make_any):
    model = rows_model(tmp_path / "model.tflite", make_any())
    for bad in (-1, 50, 2**31 - 1):
        ids = np.array([[0, 1, bad]], np.int32)
        expected = rf"got id {bad} at position 2 of the flattened ids, expected 0 <= id < 50"
        tflite.refuses(model, expected, [ids])
        tflite.refuses(model, "gather index out of bounds", [ids], delegate=False)


def test_damaged_row_is_named_with_its_position(tflite, tmp_path):
    table = AntTable()
    offsets = table.tensors()["row_offsets"].copy()
    offsets[5] = 10_000
    model = rows_model(tmp_path / "model.tflite", table, row_offsets=offsets)
    tflite.refuses(model, r"row_offsets of a row .*at position 1 of the flattened ids", [np.array([[0, 5]], np.int32)])


def test_tables_beside_other_operators_are_replaced(tflite, tmp_path):
    """Words and positions are added: shared tensors and other operators stay."""
    words, places = DpqTable(num_codes=256), AntTable()
    model = Model()
    given = model.tensor("given", np.int64, [-1, -1])
    ids = model.tensor("ids", np.int32, [-1, -1])
    model.operator("CAST", [given], [ids], "CastOptions")
    add_table(model, words, "words.")
    add_table(model, places, "places.")
    found = [add_rows(model, table, ids, name, 2) for table, name in ((words, "words"), (places, "places"))]
    total = model.tensor("sum", np.float32, [-1, -1, words.dim])
    model.operator("ADD", found, [total], "AddOptions")
    lines = [
        line("rows", table, ids="ids", output=name, **{field: f"{name}.{field}" for field in table.tensors()})
        for table, name in ((words, "words"), (places, "places"))
    ]
    path = model.write(tmp_path / "model.tflite", [given], [total], manifest(*lines))
    values = np.arange(50).reshape(5, 10)
    results = tflite.run(path, [values])
    assert results.replaced == 2
    exact = words.rows64[values] + places.rows64[values]
    assert_close(results.outputs[0][0], np.float32, exact, words.magnitudes[values] + places.magnitudes[values])


def test_operators_with_results_needed_elsewhere_stay(tflite, tmp_path):
    """The delegate replaces operators that only the lookup needs; here one of them feeds another output.

    The last operator of the lookup, which never runs, stands for any that also reads the ids as they are given.
    """
    table = TtTable()
    model = Model()
    given = model.tensor("given", np.int64, [-1, -1])
    ids, floats = model.tensor("ids", np.int32, [-1, -1]), model.tensor("floats", np.float32, [-1, -1])
    model.operator("CAST", [given], [ids], "CastOptions")
    model.operator("CAST", [ids], [floats], "CastOptions")
    add_table(model, table)
    inner = add_rows(model, table, ids, "inner", 2)
    rows = model.tensor("rows", np.float32, [-1, -1, table.dim])
    model.operator("CONCATENATION", [inner, given], [rows], "ConcatenationOptions")
    text = manifest(line("rows", table, ids="given", output="rows"))
    path = model.write(tmp_path / "model.tflite", [given], [rows, floats], text)
    values = np.array([[4, 7]])
    results = tflite.run(path, [values])
    assert results.replaced == 1
    assert_same_bits(results.outputs[0][1], values.astype(np.float32))
    assert_close(results.outputs[0][0], np.float32, table.rows64[values], table.magnitudes[values])


def test_use_that_hides_an_output_stays(tflite, tmp_path):
    """An output of the model lies between ids and rows here, so the kernel has no place."""
    table = DpqTable()
    model = Model()
    ids = model.tensor("ids", np.int32, [-1, -1])
    add_table(model, table)
    inner = add_rows(model, table, ids, "inner", 2)
    rows = model.tensor("rows", np.float32, [-1, -1, table.dim])
    model.operator("RELU", [inner], [rows])
    text = manifest(line("rows", table, ids="ids", output="rows"))
    values = np.array([[4, 7]], np.int32)
    results = tflite.run(model.write(tmp_path / "model.tflite", [ids], [rows, inner], text), [values])
    assert results.replaced == 0
    assert_same_bits(results.outputs[0][1], table.rows(values))


def test_ids_with_late_shape_are_looked_up(tflite, tmp_path):
    """Another tensor gives the shape of the ids when the model runs."""
    table = DpqTable()
    model = Model()
    given, shape = model.tensor("given", np.int32, [-1]), model.tensor("shape", np.int32, [-1])
    ids = model.tensor("ids", np.int32, [-1, -1])
    model.operator("RESHAPE", [given, shape], [ids], "ReshapeOptions", newShape=None)
    add_table(model, table)
    rows = add_rows(model, table, ids, "rows", 2)
    text = manifest(line("rows", table, ids="ids", output="rows"))
    path = model.write(tmp_path / "model.tflite", [given, shape], [rows], text)
    values = np.arange(24, dtype=np.int32)
    results = tflite.run(path, [values, np.array([2, 12], np.int32)], [values, np.array([6, 4], np.int32)])
    assert results.replaced == 1
    for (got,), ids in zip(results.outputs, (values.reshape(2, 12), values.reshape(6, 4)), strict=True):
        assert_same_bits(got, table.rows(ids))


def test_empty_batch_gives_no_rows(tflite, tmp_path):
    results = tflite.run(rows_model(tmp_path / "model.tflite", DpqTable()), [np.zeros((0, 4), np.int32)])
    assert results.outputs[0][0].shape == (0, 4, 24)


class TestRefusals:
    """The manifest is checked when the model is loaded; without the delegate the same file runs."""

    @pytest.mark.parametrize(
        ("method", "wrong", "message"),
        [
            ("dpq", {"codes": "absent"}, "codes: got no tensor of this name in the model"),
            ("dpq", {"codes": None}, "codes: got no tensor"),
            ("dpq", {"codes": "values"}, "codes: got float32, expected uint8"),
            ("dpq", {"values": "codes"}, "values: got uint8, expected float32 or float16 or int8"),
            ("dpq", {"codes": "ids"}, "codes: got int32, expected uint8"),
            ("dpq", {"values": "rows"}, "values: got a computed tensor, expected a constant"),
            ("dpq", {"ids": "codes"}, "ids: got uint8, expected int32 or int64"),
            ("dpq", {"bits": 5}, "bits"),
            ("dpq", {"bits": None}, "bits: got no integer"),
            ("dpq", {"bits": "four"}, "bits: got no integer"),
            ("dpq", {"bits": 2**40}, "bits"),
            ("dpq", {"num_codes": 17}, "num_codes"),
            ("dpq", {"num_embeddings": 51}, "code buffer is shorter than num_embeddings rows"),
            ("dpq", {"num_embeddings": 0}, "at least 1"),
            ("dpq", {"num_groups": 2**62}, "overflow"),
            ("dpq", {"group_width": 5}, "value buffer is shorter"),
            ("dpq", {"padding_idx": 50}, "padding"),
            ("ant", {"num_weights": 10**6}, "buffer of .* is shorter"),
            ("ant", {"num_anchors": 21}, "buffer of anchors is shorter"),
            ("ant", {"row_offsets": None}, "row_width: got no integer"),
            ("ant", {"row_offsets": None, "row_width": 2**30}, "row_width: got more weights"),
            ("ant", {"anchors": "anchor_ids"}, "anchors: got uint8, expected float32 or float16"),
            ("tt", {"ranks": "1,5,5"}, "lengths that do not match"),
            ("tt", {"ranks": "1,5,5,2"}, "a core is shorter"),
            ("tt", {"row_shape": "3,4,5,6,7,8,9"}, "row_shape: got no list of integers, or one that is too long"),
            ("tt", {"col_shape": "2,3,"}, "col_shape: got no list"),
            ("tt", {"row_shape": "3,4,6"}, "buffer of a core is shorter"),
            ("tt", {"num_embeddings": 61}, "multiply to fewer"),
            ("tt", {"core_1": "core_0"}, "buffer of a core is shorter"),
        ],
    )
    def test_manifest_line_that_does_not_fit_model_is_refused(self, tflite, tmp_path, method, wrong, message):
        table = TABLES[method]()
        text = manifest(line("rows", table, **({"ids": "ids", "output": "rows"} | wrong)))
        path = rows_model(tmp_path / "model.tflite", table, text=text)
        ids = np.zeros((1, 1), np.int32)
        tflite.refuses(path, rf"edge_embed: rows of {method}.*{message}.*export the model again", [ids])
        assert_close(
            tflite.run(path, [ids], delegate=False).outputs[0][0], np.float32, table.rows64[ids], table.magnitudes[ids]
        )

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("edge_embed 2\n", "manifest of a version other than 1"),
            ("", "manifest of a version other than 1"),
            (
                "edge_embed 1\nrows pq output=rows num_embeddings=50\n",
                "method: got an unknown method, expected dpq, ant, tt, dpq_scaled or tiered",
            ),
            ("edge_embed 1\ncolumns dpq output=rows\n", "use: got an unknown use"),
            ("edge_embed 1\nrows\n", "output: got no tensor"),
            ("edge_embed 1\n" + "x" * 5000 + "\n", "use: got an unknown use"),
        ],
    )
    def test_manifest_that_cannot_be_read_is_refused(self, tflite, tmp_path, text, message):
        path = rows_model(tmp_path / "model.tflite", DpqTable(), text=text or "\n")
        tflite.refuses(path, message, [np.zeros((1, 1), np.int32)])

    def test_tensor_name_that_occurs_twice_is_refused(self, tflite, tmp_path):
        table = DpqTable()
        model = Model()
        ids = model.tensor("ids", np.int32, [-1, -1])
        add_table(model, table)
        model.constant("codes", np.zeros((50, 3), np.uint8))
        rows = add_rows(model, table, ids, "rows", 2)
        text = manifest(line("rows", table, ids="ids", output="rows"))
        path = model.write(tmp_path / "model.tflite", [ids], [rows], text)
        tflite.refuses(path, "codes: got no tensor of this name in the model, or several", [np.zeros((1, 1), np.int32)])

    def test_output_without_operator_is_refused(self, tflite, tmp_path):
        table = DpqTable()
        text = manifest(line("rows", table, ids="ids", output="values"))
        path = rows_model(tmp_path / "model.tflite", table, text=text)
        tflite.refuses(path, "got an output values that no operator computes", [np.zeros((1, 1), np.int32)])

    def test_delegate_options_are_refused(self, tflite, tmp_path):
        path = rows_model(tmp_path / "model.tflite", DpqTable())
        tflite.refuses(path, "got options of the delegate, expected none", [], options={"fast": "1"})


@pytest.mark.parametrize("text", [manifest(), manifest("rows dpq ids=elsewhere output=elsewhere\n")])
def test_use_whose_output_is_not_in_graph_is_left_unchanged(tflite, tmp_path, text):
    """The output belongs to another subgraph, or a tool renamed it: the file's operators run."""
    table = DpqTable()
    results = tflite.run(rows_model(tmp_path / "model.tflite", table, text=text), [np.array([[7]], np.int32)])
    assert results.replaced == 0
    assert_same_bits(results.outputs[0][0], table.rows(np.array([[7]])))


def test_model_without_manifest_is_left_unchanged(tflite, tmp_path):
    model = Model()
    ids = model.tensor("ids", np.int32, [-1, -1])
    rows = add_rows(model, DpqTable(), ids, "rows", 2)
    path = model.write(tmp_path / "model.tflite", [ids], [rows], None)
    assert tflite.run(path, [np.array([[7]], np.int32)]).replaced == 0
