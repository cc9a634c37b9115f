"""Every difference in a sound file is found and named: exit code 3."""

import re
from dataclasses import replace

import onnx
import onnx.inliner
import pytest
import torch
from onnx import numpy_helper

from edge_embed.exporters.onnx.dpq import DPQ
from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.lowering.graph import lower_program

from .conftest import DIM, FROZEN_ROWS, ROWS, Exported, NextWord, make_model, make_program


def failures_of(exported: Exported) -> str:
    report = exported.validate()
    assert report.exit_code == 3
    assert not report.passed
    return "\n".join(report.failures())


def statuses(checks) -> dict[str, str]:
    return {check.name: check.status for check in checks}


def test_code_with_flipped_bit_is_found(exported):
    # Rows of `word` have two bytes of 3 groups of 3 bits: bit 4 of byte 0 is in group 1.
    exported.flip("word.codes", byte=2 * 17, bit=4)
    report = exported.validate()
    assert report.exit_code == 3
    word, topic = report.tables
    stored = {check.name: check for check in word.checks}["stored rows"]
    assert stored.status == "failed"
    assert "row 17, group 1" in stored.detail
    assert statuses(word.checks)["manifest"] == "failed"
    assert statuses(word.paths) == {
        "training form": "passed",
        "packed oracle": "passed",
        "ONNX reference evaluator": "failed",
        "portable body": "failed",
        "custom op": "failed",
    }
    assert all("row 17, group 1" in path.detail for path in word.paths[2:])
    assert {*statuses(topic.checks).values(), *statuses(topic.paths).values()} == {"passed"}
    assert all(text.startswith(("table word", "model")) for text in report.failures())


def test_shared_value_with_flipped_bit_is_located(exported):
    packed = exported.lowered.tables["topic"]
    row = 23
    code = int(packed.codes_of(row)[0])
    first = next(at for at in range(FROZEN_ROWS) if code in packed.codes_of(at))
    exported.flip("topic.values", byte=4 * (16 * code + 1), bit=0)  # 16 columns a group
    text = failures_of(exported)
    assert f"table topic: stored rows: values differ at group 0, code {code}, column 1" in text
    assert f"first used by row {first}" in text
    assert "table topic: custom op" in text
    assert "table topic: portable body" in text


def test_value_with_flipped_lowest_bit_is_found_by_paths(inline):
    # The paths must find the bit by rows of ids, without the comparison of stored bytes.
    packed = inline.lowered.tables["word"]
    code = int(packed.codes_of(9)[2])
    inline.flip("word.values", byte=4 * (2 * 7 + code) * 16, bit=0)  # 7 codes a group, 16 columns
    word = inline.validate().tables[0]
    assert [path.status for path in word.paths] == ["passed", "passed", "failed", "failed", "failed"]
    assert all("group 2, column 32" in path.detail for path in word.paths[2:])


def test_weight_beside_tables_with_flipped_bit_is_found(exported):
    exported.flip("head.bias", byte=4 * 7 + 3, bit=0)
    report = exported.validate()
    assert report.exit_code == 3
    assert all(check.status == "passed" for table in report.tables for check in (*table.checks, *table.paths))
    assert [path.status for path in report.model.paths] == ["passed", "passed", "failed", "failed", "failed"]
    assert "logits" in report.model.paths[4].detail


def test_file_of_another_training_is_found(originals, tmp_path):
    model = make_model()
    with torch.no_grad():
        model.word.query.add_(torch.randn_like(model.word.query))
    example = originals["never"].program.example_inputs
    export_onnx(lower_program(make_program(model, example, tmp_path)), tmp_path / "model.onnx")
    other = Exported(originals["never"].program, originals["never"].lowered, tmp_path / "model.onnx")
    text = failures_of(other)
    assert "table word: stored rows: codes differ at row" in text
    for part in ("table word: manifest: codes: got SHA-256", "table word: custom op", "model: custom op: logits"):
        assert part in text
    assert "table topic: stored rows" not in text


def test_file_of_same_model_in_another_value_type_is_found(originals, tmp_path):
    """Paths that cannot run against the float32 model are not run, and no runtime error about them is reported."""
    model = make_model()
    model.word.freeze(value_type="float16")
    program = make_program(model, (torch.randint(3, ROWS, (2, 5)), torch.randn(2, 5, DIM)), tmp_path)
    path = tmp_path / "model.onnx"
    export_onnx(lower_program(program), path)
    original = originals["never"]
    text = failures_of(Exported(original.program, original.lowered, path))
    assert "table word: stored rows: values: got float16" in text
    assert "cannot open" not in text


def test_nan_in_weight_is_found(tmp_path):
    model = make_model()
    with torch.no_grad():
        model.head.weight[3, 1] = float("nan")
    program = make_program(model, (torch.randint(3, ROWS, (2, 5)), torch.randn(2, 5, DIM)), tmp_path)
    lowered = lower_program(program)
    export_onnx(lowered, tmp_path / "model.onnx")
    text = failures_of(Exported(program, lowered, tmp_path / "model.onnx"))
    for path in ("training form", "portable body", "custom op"):
        assert f"model: {path}: logits" in text
    assert "NaN values" in text


def test_attribute_of_node_that_differs_is_found(inline):
    def change(model: onnx.ModelProto) -> None:
        node = next(node for node in model.graph.node if "word.codes" in node.input)
        next(item for item in node.attribute if item.name == "padding_idx").i = -1

    inline.edit(change)
    text = failures_of(inline)
    assert "table word: node" in text
    assert "padding_idx=-1" in text
    assert "table word: custom op" in text


def test_missing_manifest_is_found(inline):
    def change(model: onnx.ModelProto) -> None:
        del model.metadata_props[:]

    inline.edit(change)
    assert "table word: manifest: it is missing" in failures_of(inline)


def with_other_centroids(model: NextWord) -> None:
    model.word.value.data.mul_(2)


def with_another_padding_row(model: NextWord) -> None:
    model.word.padding_idx = 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_other_centroids, "values: got SHA-256 .*, the hash of the model"),
        (with_another_padding_row, "its method, sizes or padding row "),
    ],
)
def test_manifest_of_another_file_is_found(inline, tmp_path, change, message):
    other = make_model()
    change(other)
    lowered = lower_program(make_program(other, inline.program.example_inputs, tmp_path))
    export_onnx(lowered, tmp_path / "other.onnx")
    manifest = onnx.load(tmp_path / "other.onnx").metadata_props

    def replace_manifest(model: onnx.ModelProto) -> None:
        model.ClearField("metadata_props")
        model.metadata_props.extend(manifest)

    inline.edit(replace_manifest)
    report = inline.validate()
    assert report.exit_code == 3
    of_tables = [failure for failure in report.failures() if failure.startswith("table")]
    assert len(of_tables) == 1  # all paths give the right rows
    assert re.match(f"table word: manifest: {message}", of_tables[0])


def test_missing_body_is_found(inline):
    inline.edit(lambda model: model.ClearField("functions"))
    report = inline.validate()
    assert report.exit_code == 3
    for table in report.tables:
        assert statuses(table.checks)["portable body"] == "failed"
        assert statuses(table.paths)["portable body"] == "failed"
        assert statuses(table.paths)["custom op"] == "passed"
    assert report.model.kernel.status == "failed"


def replace_body(exported: Exported, old: str, new: str) -> None:
    text = DPQ.body(2)
    assert text.count(old) == 1
    body = replace(DPQ, body=lambda count: text.replace(old, new)).operator("rows").function(2)

    def change(model: onnx.ModelProto) -> None:
        model.functions[0].CopyFrom(body)

    exported.edit(change)


@pytest.mark.parametrize(
    ("guard", "accepted"),
    [
        ("safe_ids = Where (negative, zero, wide_ids)", -1),  # clamped
        ("safe_ids = Identity (wide_ids)", -1),  # left to Gather, which counts negative ids from the end
        ("safe_ids = Where (negative, num_rows, zero)", ROWS),
    ],
)
def test_body_that_accepts_ids_out_of_range_is_found(inline, guard, accepted):
    replace_body(inline, "safe_ids = Where (negative, num_rows, wide_ids)", guard)
    report = inline.validate()
    assert report.exit_code == 3
    word = {path.name: path for path in report.tables[0].paths}
    assert word["custom op"].status == "passed"
    for name in ("portable body", "ONNX reference evaluator"):
        assert word[name].status == "failed"
        assert ": got " in word[name].detail


def test_body_without_padding_row_is_found(inline):
    replace_body(inline, "is_padding = Equal (wide_ids, padding_idx)", "is_padding = Equal (wide_ids, num_rows)")
    text = failures_of(inline)
    assert "table word: portable body" in text
    assert "row 2, group 0" in text
    assert "table word: custom op" not in text


def test_nodes_inlined_by_another_tool_are_found(inline):
    model = onnx.inliner.inline_local_functions(onnx.load(inline.path))
    inline.path.write_bytes(model.SerializeToString())
    report = inline.validate()
    assert report.exit_code == 3
    for table in report.tables:
        assert statuses(table.checks)["node"] == "failed"
        assert statuses(table.checks)["stored rows"] == "passed"
        assert statuses(table.paths)["custom op"] == "not run"


def test_table_absent_from_model_is_found(inline):
    def change(model: onnx.ModelProto) -> None:
        for tensor in model.graph.initializer:
            tensor.name = tensor.name.replace("topic.", "other.")
        for node in model.graph.node:
            for index, name in enumerate(node.input):
                node.input[index] = name.replace("topic.", "other.")

    inline.edit(change)
    text = failures_of(inline)
    assert "give the model of this file" in text
    assert "table topic: node" in text


def test_table_with_a_row_less_is_found(inline):
    def change(model: onnx.ModelProto) -> None:
        (found,) = (tensor for tensor in model.graph.initializer if tensor.name == "word.codes")
        found.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(found)[:-1], "word.codes"))
        model.graph.ClearField("value_info")  # otherwise the checker finds it first

    inline.edit(change)
    text = failures_of(inline)
    assert f"table word: stored rows: codes: got uint8 [{ROWS - 1}, 2], expected uint8 [{ROWS}, 2]" in text
    assert "table word: custom op" in text
