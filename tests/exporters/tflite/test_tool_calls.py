"""Tables in branches, loops and calls of TFLite files, and tables that have to stay."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")
sys.path.append(str(Path(__file__).parent))

from flatbuffers import flexbuffers
from foreign_files import change
from test_tool_files import answer, exact, same
from tool_files import DIM, INT8, ROWS, TABLE, Scales, ToolFile, dequantized, embedding_lookup, gather

from edge_embed.compression.tflite.foreign_file import read_foreign
from edge_embed.compression.tflite.replace import read_dense_tables, replace_tables
from edge_embed.exporters.tflite.names import DELEGATE_KEY
from edge_embed.inspection.tflite_file import read_tflite

SCALES = Scales(0.05)
TABLES = {
    "float32": (lambda file: file.constant("table", TABLE), "float32"),
    "dequantized": (lambda file: dequantized(file, file.constant("table", INT8, SCALES)), "float32"),
}


def branches(path, table="float32", other=None, whole=False):
    """Write TensorFlow's tf.cond: both branches take the table as an argument, the second looks up ids + 1."""
    file, (make, kind) = ToolFile(), TABLES[table]
    condition, ids = file.tensor("condition", "bool", []), file.tensor("ids", "int32", [1, 4])
    given = [condition, make(file), ids]
    made = file.add("IF", given, [1, 4, DIM], options="IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    made = (
        [made, file.add("SUM", [given[1], file.constant("axes", np.array([0], np.int32))], [DIM])] if whole else [made]
    )
    file.graph.inputs, file.graph.outputs = [condition, ids], made
    for step in (0, 1):
        file.begin()
        rows, ids = file.tensor(f"table_{step}", kind, [ROWS, DIM]), file.tensor(f"ids_{step}", "int32", [1, 4])
        at = file.add(
            "ADD", [ids, file.constant("step", np.array(step, np.int32))], [1, 4], "int32", options="AddOptions"
        )
        if other is not None and step:
            rows_of = file.constant("other", other)
            file.graph.outputs = [gather(file, at, rows_of)]
        else:
            file.graph.outputs = [gather(file, at, rows)]
        file.graph.inputs = [rows, ids]
    file.builder.write(path, {})
    return path


def loop(path, changes=False):
    """Write TensorFlow's tf.while_loop: a sum of rows, with the table as an argument that each step returns."""
    file = ToolFile()
    ids, table = file.tensor("ids", "int32", [1, 4]), file.constant("table", TABLE)
    first, zeros = file.constant("first", np.array(0, np.int32)), file.constant("zeros", np.zeros((1, DIM), np.float32))
    kinds = [("int32", []), ("float32", [ROWS, DIM]), ("float32", [1, DIM]), ("int32", [1, 4])]
    outputs = [file.tensor(f"out_{at}", *kind) for at, kind in enumerate(kinds)]
    options = {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}
    file.builder.add_operator("WHILE", [first, table, zeros, ids], outputs, "WhileOptions", options)
    file.graph.inputs, file.graph.outputs = [ids], [outputs[2]]
    file.begin()
    inputs = [file.tensor(f"cond_{at}", *kind) for at, kind in enumerate(kinds)]
    end = file.constant("end", np.array(4, np.int32))
    file.graph.inputs, file.graph.outputs = inputs, [file.add("LESS", [inputs[0], end], [], "bool")]
    file.begin()
    step, table, total, ids = inputs = [file.tensor(f"body_{at}", *kind) for at, kind in enumerate(kinds)]
    one = file.constant("one", np.array(1, np.int32))
    following = file.add("ADD", [step, one], [], "int32", options="AddOptions")
    at = file.add("GATHER", [ids, step], [1], "int32", options="GatherOptions", axis=1)
    total = file.add("ADD", [total, gather(file, at, table, (1, DIM))], [1, DIM], options="AddOptions")
    kept = file.add("ADD", [table, table], [ROWS, DIM], options="AddOptions") if changes else table
    file.graph.inputs, file.graph.outputs = inputs, [following, kept, total, ids]
    file.builder.write(path, {})
    return path


def composite(path):
    """Write a StableHLO composite: a runtime uses its kernel of that name, or runs the decomposition."""
    file = ToolFile()
    ids, table = file.tensor("ids", "int32", [1, 4]), file.constant("table", TABLE)
    made = file.add("STABLEHLO_COMPOSITE", [ids, table], [1, 4, DIM])
    operator = file.graph.operators[-1]
    operator.builtinOptions2Type = file.schema.BuiltinOptions2.StableHLOCompositeOptions
    operator.builtinOptions2 = file.schema.StableHLOCompositeOptionsT()
    operator.builtinOptions2.name, operator.builtinOptions2.decompositionSubgraphIndex = b"tests.rows", 1
    operator.builtinOptions2.compositeAttributes = list(flexbuffers.Dumps({}))
    file.graph.inputs, file.graph.outputs = [ids], [made]
    file.begin()
    ids, rows = file.tensor("ids_1", "int32", [1, 4]), file.tensor("table_1", "float32", [ROWS, DIM])
    file.graph.inputs, file.graph.outputs = [ids, rows], [gather(file, ids, rows)]
    file.builder.write(path, {})
    return path


def answers_of(path, *values):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    for given, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(given["index"], np.asarray(value, given["dtype"]).reshape(given["shape"]))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


@pytest.mark.parametrize("table", TABLES)
def test_replaced_table_given_to_branches_answers_as_before(tmp_path, table):
    file, replaced = branches(tmp_path / "file.tflite", table), tmp_path / "replaced.tflite"
    ((name, rows),) = read_dense_tables(file).items()
    assert name == "table"
    replace_tables(file, replaced, {name: exact(rows)})
    for condition in (True, False):
        got, expected = (answers_of(path, condition, [[0, 7, 58, 3]]) for path in (replaced, file))
        assert got.tobytes() == expected.tobytes()
        assert got.any()
    assert INT8[:8].tobytes() not in replaced.read_bytes()


def test_replaced_tables_of_separate_branches_answer_as_before(tmp_path):
    """The second branch receives the first one's table as an argument and does not use it."""
    file, replaced = branches(tmp_path / "file.tflite", other=TABLE[::-1].copy()), tmp_path / "replaced.tflite"
    tables = read_dense_tables(file)
    assert set(tables) == {"table", "other"}
    replace_tables(file, replaced, {name: exact(rows) for name, rows in tables.items()})
    for condition in (True, False):
        got, expected = (answers_of(path, condition, [[0, 7, 58, 3]]) for path in (replaced, file))
        assert got.tobytes() == expected.tobytes()


def test_table_given_to_branches_and_summed_stays(tmp_path):
    assert read_foreign(branches(tmp_path / "file.tflite", whole=True)).found["table"].readers == ["SUM"]


def test_replaced_table_of_loop_answers_as_before(tmp_path):
    file, replaced = loop(tmp_path / "file.tflite"), tmp_path / "replaced.tflite"
    replace_tables(file, replaced, {"table": exact(TABLE)})
    assert same(file, replaced)
    np.testing.assert_allclose(answer(replaced)[0][0], TABLE[[0, 7, 5, 9]].sum(0), rtol=1e-5)


def test_constant_changed_by_loop_is_no_table(tmp_path):
    assert read_foreign(loop(tmp_path / "file.tflite", changes=True)).found == {}


def test_replaced_table_of_composite_answers_as_before(tmp_path):
    file, replaced = composite(tmp_path / "file.tflite"), tmp_path / "replaced.tflite"
    replace_tables(file, replaced, {"table": exact(TABLE)})
    assert same(file, replaced)


def one_table(path, make):
    file = ToolFile()
    ids = file.tensor("ids", "int32", [1, 4])
    return read_foreign(file.write(path, [ids], np.atleast_1d(make(file, ids)))).found["table"]


def _two_axes(file, ids):
    table = file.constant("table", TABLE)
    return [gather(file, ids, table), gather(file, ids, table, (ROWS, 1, 4), axis=1)]


def _two_scales(file, ids):
    first = file.constant("table", INT8, SCALES)
    second = file.constant("again", INT8, Scales(0.07))
    return [embedding_lookup(file, ids, first), embedding_lookup(file, ids, second)]


STAY = {
    "along axes": _two_axes,
    "several shapes or scales": _two_scales,
    "has zero points": lambda file, ids: embedding_lookup(file, ids, file.constant("table", INT8, Scales(0.1, (3,)))),
    "begin inside a byte": lambda file, ids: embedding_lookup(
        file, ids, file.bits("table", INT8[:, :-1][:, :10].reshape(40, 15) >> 4, 4, SCALES)
    ),
    "float16, which LiteRT does not": lambda file, ids: embedding_lookup(
        file, ids, file.constant("table", TABLE.astype(np.float16))
    ),
    "float64, expected floats": lambda file, ids: gather(
        file, ids, file.constant("table", TABLE.astype(np.float64)), kind="float64"
    ),
    "requires one scale": lambda file, ids: gather(
        file, ids, file.constant("table", INT8, Scales(np.full(ROWS, 0.1), np.zeros(ROWS))), kind="int8", scales=SCALES
    ),
}


def _rename(name):
    def changed(model):
        for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
            tensor.name = name

    return changed


@pytest.mark.parametrize("name", [None, b"", b"same"])
@pytest.mark.parametrize("make", [branches, loop])
def test_replaced_table_without_unique_tensor_names_answers_as_before(tmp_path, make, name):
    file, replaced = change(make(tmp_path / "file.tflite"), _rename(name)), tmp_path / "replaced.tflite"
    replace_tables(file, replaced, {table: exact(rows) for table, rows in read_dense_tables(file).items()})
    ids = [[0, 7, 58, 3]]
    given = [(True, ids), (False, ids)] if make is branches else [(ids,)]
    for values in given:
        got, expected = (answers_of(path, *values) for path in (replaced, file))
        assert got.tobytes() == expected.tobytes()
        assert got.any()
    assert read_tflite(replaced).metadata[DELEGATE_KEY].count("\n") == 1  # no line names what several tensors share


@pytest.mark.parametrize("reason", STAY)
def test_table_that_stays_has_its_reason(tmp_path, reason):
    assert reason in one_table(tmp_path / "file.tflite", STAY[reason]).unread


def test_tables_of_one_name_are_told_apart(tmp_path):
    file = ToolFile()
    ids = file.tensor("ids", "int32", [1, 4])
    made = [gather(file, ids, file.constant("table", rows)) for rows in (TABLE, TABLE[::-1].copy())]
    file.write(tmp_path / "file.tflite", [ids], made)
    tables = read_dense_tables(tmp_path / "file.tflite")
    assert list(tables) == ["table", "table_1"]
    replace_tables(tmp_path / "file.tflite", tmp_path / "small.tflite", {n: exact(rows) for n, rows in tables.items()})
    assert same(tmp_path / "file.tflite", tmp_path / "small.tflite")
