"""Output layers that share a table in other tools' TFLite files follow the table: nothing dense stays."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")
sys.path.append(str(Path(__file__).parent))

from ai_edge_litert.interpreter import Interpreter
from foreign_files import DIM, ROWS, TABLE, WORDS, write_foreign

import edge_embed
from edge_embed.compression.tflite.foreign_file import read_foreign
from edge_embed.compression.tflite.replace import replace_tables

BIAS = np.random.default_rng(9).normal(size=ROWS).astype(np.float32)
IDS = np.array([[3, 59, 0, 7]], np.int32)


def fully_connected(graph, hidden, table, shape, bias=True, **options):
    inputs = [hidden.index, table.index, *([graph.table("bias", BIAS).index] if bias else [])]
    made = graph._tensor("logits", "float32", shape, 0)
    graph._builder.add_operator("FULLY_CONNECTED", inputs, [made.index], "FullyConnectedOptions", options)
    return made


def summed(graph, table, ids):
    return graph.sum(graph.gather(table, ids), [1])


FORMS = {
    "BATCH_MATMUL": lambda graph, table, ids: graph.products(summed(graph, table, ids), table),
    "BATCH_MATMUL of three axes": lambda graph, table, ids: graph._add(
        "BATCH_MATMUL", [graph.gather(table, ids), table], "float32", (1, 4, ROWS), adjY=True
    ),
    "FULLY_CONNECTED": lambda graph, table, ids: fully_connected(
        graph, summed(graph, table, ids), table, (1, ROWS), bias=False
    ),
    "with a bias and ReLU": lambda graph, table, ids: fully_connected(
        graph, summed(graph, table, ids), table, (1, ROWS), fusedActivationFunction=1
    ),
    "ReLU without a bias": lambda graph, table, ids: fully_connected(
        graph, summed(graph, table, ids), table, (1, ROWS), bias=False, fusedActivationFunction=3
    ),
    "that keeps three axes": lambda graph, table, ids: fully_connected(
        graph, graph.gather(table, ids), table, (1, 4, ROWS), keepNumDims=True
    ),
    "that puts rows below each other": lambda graph, table, ids: fully_connected(
        graph, graph.gather(table, ids), table, (4, ROWS)
    ),
}


def answers(path, ids=IDS):
    interpreter = Interpreter(str(path))
    detail = interpreter.get_input_details()[0]
    interpreter.resize_tensor_input(detail["index"], ids.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(detail["index"], ids)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def packed_of(make, method):
    if method == "dpq":
        return make(16, 4, rows=ROWS)
    if method == "ant":
        transform = np.random.default_rng(0).random((ROWS, 9)).astype(np.float32)
        return edge_embed.PackedANT.from_dense(transform, TABLE[:9])
    cores = [np.random.default_rng(0).normal(size=size).astype(np.float32) for size in ((6, 1, 3, 2), (10, 2, 4, 1))]
    return edge_embed.PackedTT(tuple(cores), ROWS)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", ["dpq", "ant", "tt"])
def test_tied_output_layer_gives_products_with_packed_rows(form, method, make_packed, tmp_path):
    packed = packed_of(make_packed, method)
    source = write_foreign(tmp_path / "in.tflite", make=FORMS[form])
    rows = packed.rows(np.arange(ROWS)).astype(np.float32)
    expected = write_foreign(tmp_path / "expected.tflite", rows, make=FORMS[form])
    replace_tables(source, tmp_path / "out.tflite", {WORDS: packed})
    got, wanted = answers(tmp_path / "out.tflite"), answers(expected)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4 * np.abs(wanted).max())
    buffers = read_foreign(tmp_path / "out.tflite").model.buffers
    assert max(len(buffer.data) for buffer in buffers if buffer.data is not None) < TABLE.nbytes


@pytest.mark.parametrize("form", ["BATCH_MATMUL", "with a bias and ReLU", "that keeps three axes"])
def test_tied_output_layer_without_fixed_sizes_takes_other_sizes(form, make_packed, tmp_path):
    packed = make_packed(16, 4, rows=ROWS)
    rows = packed.rows(np.arange(ROWS)).astype(np.float32)
    source = write_foreign(tmp_path / "in.tflite", make=FORMS[form], shape=(-1, -1))
    expected = write_foreign(tmp_path / "expected.tflite", rows, make=FORMS[form], shape=(-1, -1))
    replace_tables(source, tmp_path / "out.tflite", {WORDS: packed})
    for shape in ((1, 4), (3, 2), (2, 5)):
        ids = np.random.default_rng(shape[0]).integers(0, ROWS, shape).astype(np.int32)
        np.testing.assert_allclose(answers(tmp_path / "out.tflite", ids), answers(expected, ids), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("method", "form"), [("dpq", "that keeps three axes"), ("opq", "BATCH_MATMUL")])
def test_compressed_tied_table_validates_against_its_original(form, method, tmp_path):
    source, output = write_foreign(tmp_path / "in.tflite", make=FORMS[form]), tmp_path / "out.tflite"
    _, report = edge_embed.compress(source, method, output=output, num_codes=4, num_groups=3)
    assert [(table.name, table.uses, table.reason) for table in report.tables] == [(WORDS, 2, "")]
    assert edge_embed.validate(source, output, iterations=1).passed


@pytest.mark.parametrize(
    ("make", "reader"),
    [
        (lambda graph, table, ids: graph.sum(table, [0]), "SUM"),
        (
            lambda graph, table, ids: fully_connected(
                graph, summed(graph, table, ids), table, (1, ROWS), fusedActivationFunction=4
            ),
            "FULLY_CONNECTED",
        ),
        (
            lambda graph, table, ids: graph._add(
                "BATCH_MATMUL", [graph.gather(table, ids), table], "float32", (1, DIM, DIM), adjX=True
            ),
            "BATCH_MATMUL",
        ),
    ],
)
def test_table_needed_as_a_whole_elsewhere_stays(make, reader, tmp_path):
    def both(graph, table, ids):
        graph.gather(table, ids)
        return make(graph, table, ids)

    (table,) = read_foreign(write_foreign(tmp_path / "in.tflite", make=both)).found.values()
    assert (list(table.readers), list(table.output_layers)) == ([reader], [])


OUTPUT_LAYER = -TABLE[:40]
UNTIED = {
    "BATCH_MATMUL": lambda graph, table, ids: graph.products(
        summed(graph, table, ids), graph.table("head", OUTPUT_LAYER)
    ),
    "FULLY_CONNECTED": lambda graph, table, ids: fully_connected(
        graph, summed(graph, table, ids), graph.table("head", OUTPUT_LAYER), (1, 40), bias=False
    ),
}


def compressed(file):
    return edge_embed.compress(file, "rows", bits=2, output=file.with_name("small.tflite")).report


@pytest.mark.parametrize("form", UNTIED)
def test_output_layer_untied_is_listed_with_size(form, tmp_path):
    file = write_foreign(tmp_path / "dense.tflite", TABLE, make=UNTIED[form])
    (layer,) = (table for table in compressed(file).tables if table.reason)
    assert (layer.name, layer.num_embeddings, layer.embedding_dim) == ("head", 40, DIM)
    assert layer.reason.startswith(f"float32 [40, {DIM}], 1,920 bytes: an output layer ({form}) without lookups")
    inspected = edge_embed.inspect(file)
    assert [(dense.name, dense.num_embeddings) for dense in inspected.dense] == [(WORDS, ROWS), ("head", 40)]
    assert any(note.startswith("head is an output layer") for note in inspected.notes)


def test_layer_within_model_is_not_listed(tmp_path):
    def two(graph, table, ids):
        inner = graph.products(summed(graph, table, ids), graph.table("inner", OUTPUT_LAYER))
        return graph.products(inner, graph.table("outer", np.ones((5, 40), np.float32)))

    report = compressed(write_foreign(tmp_path / "dense.tflite", TABLE, make=two))
    assert [table.name for table in report.tables] == [WORDS]
