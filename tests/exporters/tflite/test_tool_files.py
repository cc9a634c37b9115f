"""Tables as Google's tools store them: rows match the runtime, and packed lookups give the file's results."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")
sys.path.append(str(Path(__file__).parent))

from ai_edge_litert.interpreter import Interpreter
from tool_files import DIM, FORMS, INT8, ROWS, TABLE, ToolFile, gather, move_behind, write_form

import edge_embed
from edge_embed.compression.tflite.foreign_file import read_foreign
from edge_embed.compression.tflite.replace import read_dense_tables, replace_tables
from edge_embed.compression.tflite.subgraph_calls import operator_name
from edge_embed.errors import BadInputError
from edge_embed.inspection.tflite_file import inspect_tflite

IDS = np.array([[0, 7, 5, 9]], np.int32)


def exact(rows):
    """Return a packed table with a code for every row."""
    return edge_embed.PackedDPQ.from_codes(np.arange(len(rows), dtype=np.uint16)[:, np.newaxis], rows[np.newaxis])


def answer(path, ids=IDS):
    """Return the outputs of a file, or None if it refuses the ids."""
    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    interpreter.set_tensor(given["index"], ids.astype(given["dtype"]))
    try:
        interpreter.invoke()
    except RuntimeError:
        return None
    return [interpreter.get_tensor(output["index"]) for output in interpreter.get_output_details()]


def same(path, other, ids=IDS):
    """Return whether two files give the same numbers."""
    one, two = answer(path, ids), answer(other, ids)
    if one is None or two is None:
        return one is two
    return all(a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
               for a, b in zip(one, two, strict=True))  # fmt: skip


def operators(path):
    return inspect_tflite(path, verify=False).tflite.operators


@pytest.mark.parametrize("form", FORMS)
class TestForms:
    def test_dense_table_of_each_form_has_rows_of_runtime(self, tmp_path, form):
        file = write_form(tmp_path / "file.tflite", form)
        ((name, rows),) = read_dense_tables(file).items()
        assert (name, rows.dtype, rows.shape) == ("table", np.float32, (ROWS, DIM))
        if "one_hot" in form or "gather_nd of two" in form or "integers" in form:
            return  # these outputs are no plain rows: the test of answers compares them
        order = (form.endswith(("columns", "columns int8")) and [1, 2, 0]) or (
            form.endswith("middle axis") and [1, 2, 0, 3]
        )
        for first in range(0, ROWS, 4):
            (made,) = answer(file, np.arange(first, first + 4)[np.newaxis])
            made = made.transpose(order) if order else made
            assert made.reshape(4, DIM).tobytes() == rows[first : first + 4].tobytes()

    def test_replaced_table_of_each_form_answers_as_before(self, tmp_path, form):
        file, replaced = write_form(tmp_path / "file.tflite", form), tmp_path / "replaced.tflite"
        ((name, rows),) = read_dense_tables(file).items()
        replace_tables(file, replaced, {name: exact(rows)})
        for ids in ([0, 7, 5, 9], [59, 0, 59, 1], [1, 2, -1, 3], [1, ROWS, 2, 3], [0, 10, 3, 3], [-ROWS, 1, 1, 1]):
            assert same(file, replaced, np.array([ids])), ids
        left = set(operators(replaced)) & {"ONE_HOT", "EMBEDDING_LOOKUP", "GATHER_ND", "FULLY_CONNECTED"}
        assert left == set()
        assert ("table" in read_dense_tables(replaced)) is False
        assert inspect_tflite(replaced, verify=True).differences == []

    def test_replaced_table_of_each_form_drops_stored_numbers(self, tmp_path, form, make_packed):
        file, replaced = write_form(tmp_path / "file.tflite", form), tmp_path / "replaced.tflite"
        table = read_foreign(file).found["table"]
        content = bytes(table._model.buffers[table.buffer].data)
        assert content in file.read_bytes()
        replace_tables(file, replaced, {"table": make_packed(16, 4, rows=ROWS)})
        assert content not in replaced.read_bytes()
        assert answer(replaced)[0].shape == answer(file)[0].shape


@pytest.mark.parametrize("form", ["tensorflow one_hot", "tensorflow float16", "tensorflow batch of one"])
def test_replaced_table_with_int64_ids_answers_as_before(tmp_path, form):
    file, replaced = write_form(tmp_path / "file.tflite", form, "int64"), tmp_path / "replaced.tflite"
    ((name, rows),) = read_dense_tables(file).items()
    replace_tables(file, replaced, {name: exact(rows)})
    for ids in ([0, 7, 5, 9], [1, 2, -1, 3], [1, 2**32, 2, 3], [1, 2, 3, ROWS]):
        assert same(file, replaced, np.array([ids], np.int64)), ids


def test_replaced_batch_of_tables_answers_as_before(tmp_path):
    file = ToolFile()
    ids = file.tensor("ids", "int32", [2, 3])
    made = gather(file, ids, file.constant("table", TABLE.reshape(2, 3, 10, DIM)), (2, 3, 3, DIM), axis=2, batchDims=1)
    file.write(tmp_path / "file.tflite", [ids], [made])
    ((name, rows),) = read_dense_tables(tmp_path / "file.tflite").items()
    assert rows.shape == (20, 3 * DIM)
    replace_tables(tmp_path / "file.tflite", tmp_path / "replaced.tflite", {name: exact(rows)})
    for ids in ([[0, 9, 4], [3, 3, 9]], [[0, 10, 1], [1, 1, 1]], [[0, 1, 1], [-1, 1, 1]]):
        assert same(tmp_path / "file.tflite", tmp_path / "replaced.tflite", np.array(ids)), ids


def test_replaced_rows_read_as_integers_are_quantised_again(tmp_path, make_packed):
    """The operator that reads integers gets the nearest ones; ``DEQUANTIZE`` beside it stays."""
    from tool_files import Scales

    file, scales = ToolFile(), Scales(0.03, (4,))
    ids = file.tensor("ids", "int32", [1, 4])
    rows = gather(file, ids, file.constant("table", INT8, scales), kind="int8", scales=scales)
    made = file.add("DEQUANTIZE", [rows], [1, 4, DIM])
    file.write(tmp_path / "file.tflite", [ids], [made, rows])
    packed = make_packed(16, 4, rows=ROWS)
    replace_tables(tmp_path / "file.tflite", tmp_path / "replaced.tflite", {"table": packed})
    floats, integers = answer(tmp_path / "replaced.tflite")
    expected = np.clip(np.rint(packed.rows(IDS) / np.float32(0.03)) + 4, -128, 127)
    np.testing.assert_array_equal(integers, expected.astype(np.int8))
    np.testing.assert_allclose(floats, (expected - 4) * 0.03, rtol=1e-6)


class TestOutside:
    @pytest.mark.parametrize("form", ["quantizer int4", "tensorflow dynamic range", "tensorflow one_hot"])
    def test_contents_behind_flatbuffer_are_read(self, tmp_path, form):
        inside, behind = write_form(tmp_path / "a.tflite", form), write_form(tmp_path / "b.tflite", form)
        move_behind(behind)
        assert same(inside, behind)
        (rows,), (moved,) = (read_dense_tables(file).values() for file in (inside, behind))
        assert rows.tobytes() == moved.tobytes()
        outputs = [tmp_path / "inside.tflite", tmp_path / "behind.tflite"]
        for file, output in zip((inside, behind), outputs, strict=True):
            replace_tables(file, output, {"table": exact(rows)})
        assert outputs[0].read_bytes() == outputs[1].read_bytes()

    def test_packed_tables_behind_flatbuffer_are_verified(self, tmp_path, make_packed):
        """The file of a compressed model after ai-edge-quantizer has written it again is verified."""
        file = write_form(tmp_path / "a.tflite", "litert-torch")
        replace_tables(file, tmp_path / "b.tflite", {"table": make_packed(16, 4, rows=ROWS)})
        move_behind(tmp_path / "b.tflite", least=64)
        report = inspect_tflite(tmp_path / "b.tflite", verify=True)
        assert (report.differences, report.tables[0].hash_status) == ([], "matches")

    @pytest.mark.parametrize("change", [{"offset": 1 << 20}, {"size": 1 << 40}, {"offset": (1 << 64) - 8}])
    def test_contents_behind_end_of_file_are_damage(self, tmp_path, change):
        from foreign_files import change as changed

        def move(model):
            for name, value in {"data": None, "offset": 64, "size": 64, **change}.items():
                setattr(model.buffers[1], name, value)

        with pytest.raises(BadInputError, match=r"is damaged .*buffer 1 ends at byte"):
            read_foreign(changed(write_form(tmp_path / "a.tflite", "litert-torch"), move))

    @pytest.mark.parametrize("axes", [3, 1 << 25, -1])
    def test_gather_nd_of_more_axes_than_table_is_damage(self, tmp_path, axes):
        from foreign_files import change as changed

        def index(model):
            (graph,) = model.subgraphs
            (found,) = [each for each in graph.operators if operator_name(model, each) == "GATHER_ND"]
            graph.tensors[found.inputs[1]].shape = [4, axes]

        with pytest.raises(BadInputError, match=f"is damaged .*GATHER_ND along {axes} axes of 2"):
            read_foreign(changed(write_form(tmp_path / "a.tflite", "tensorflow gather_nd"), index))

    def test_external_buffer_is_read_from_its_file(self, tmp_path, external):
        rows = read_dense_tables(external("weights.bin"))["table"]
        assert rows.tobytes() == TABLE.tobytes()
        assert read_foreign(tmp_path / "a.tflite").files == (tmp_path / "a.tflite", tmp_path / "weights.bin")
        replace_tables(tmp_path / "a.tflite", tmp_path / "b.tflite", {"table": exact(rows)})
        (tmp_path / "weights.bin").unlink()
        assert same(write_form(tmp_path / "inside.tflite", "litert-torch"), tmp_path / "b.tflite")

    @pytest.mark.parametrize("name", ["../weights.bin", "/weights.bin", "", "absent.bin"])
    def test_external_buffer_in_another_folder_is_refused(self, tmp_path, external, name):
        with pytest.raises(BadInputError, match="beside the model"):
            read_foreign(external(name))

    def test_external_buffer_file_is_never_overwritten(self, tmp_path, external):
        with pytest.raises(BadInputError, match="is read by this command"):
            replace_tables(external("weights.bin"), tmp_path / "weights.bin", {"table": exact(TABLE)}, force=True)
        assert (tmp_path / "weights.bin").stat().st_size == 32 + TABLE.nbytes

    @pytest.fixture
    def external(self, tmp_path):
        from foreign_files import change

        def write(name):
            (tmp_path / "weights.bin").write_bytes(b"\1" * 32 + TABLE.tobytes())

            def move(model):
                schema = edge_embed.exporters.tflite.flatbuffer.load_schema()
                table = next(t for t in model.subgraphs[0].tensors if t.name == b"table")
                model.buffers[table.buffer].data, table.buffer, table.externalBuffer = None, 0, 7
                entry, group = schema.ExternalBufferT(), schema.ExternalBufferGroupT()
                entry.id, entry.group, entry.offset, entry.length = 7, 0, 32, TABLE.nbytes
                group.name = name.encode()
                model.externalBuffers, model.externalBufferGroups = [entry], [group]

            return change(write_form(tmp_path / "a.tflite", "litert-torch"), move)

        return write
