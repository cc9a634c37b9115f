"""ONNX files that a tool or an attacker changed."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, inliner, numpy_helper

from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import inspect_file
from edge_embed.inspection.report import FileReport


def initializer(model: onnx.ModelProto, name: str) -> TensorProto:
    return next(tensor for tensor in model.graph.initializer if tensor.name == name)


def attributes(model: onnx.ModelProto, name: str) -> list[onnx.AttributeProto]:
    """Return the attributes of a name on the nodes of table ``token``."""
    nodes = [node for node in model.graph.node if "token.codes" in node.input]
    return [item for node in nodes for item in node.attribute if item.name == name]


def status(report: FileReport) -> dict[str, str]:
    return {table.name: table.hash_status for table in report.tables}


@pytest.mark.parametrize("tensor", ["token.codes", "token.values", "topic.codes", "topic.values"])
@pytest.mark.parametrize("where", [0, -1])
def test_verify_finds_bit_flip_in_table(changed, tensor, where):
    def flip(model):
        stored = initializer(model, tensor)
        content = bytearray(stored.raw_data)
        content[where] ^= 1
        stored.raw_data = bytes(content)

    path = changed(flip)
    table, _, part = tensor.partition(".")
    assert inspect_file(path).exit_code == 0  # hashes are not checked without verify
    report = inspect_file(path, verify=True)
    assert report.exit_code == 3
    assert status(report) == {"token": "matches", "topic": "matches"} | {table: "DIFFERS"}
    (difference,) = report.differences
    assert difference.startswith(f"table {table!r}: {part} differ: got SHA-256 ")


@pytest.mark.parametrize("tensor", ["token.codes", "token.values"])
def test_verify_finds_bit_flip_in_external_data(files, tensor):
    model = onnx.load(files / "external.onnx", load_external_data=False)
    place = {entry.key: entry.value for entry in initializer(model, tensor).external_data}
    data = files / "external.onnx.data"
    content = bytearray(data.read_bytes())
    content[int(place["offset"]) + int(place["length"]) - 1] ^= 0x80
    data.write_bytes(content)
    report = inspect_file(files / "external.onnx", verify=True)
    assert report.exit_code == 3
    assert status(report)[tensor.partition(".")[0]] == "DIFFERS"


def test_verify_accepts_tensors_in_another_field(changed):
    def unpack(model):
        codes = initializer(model, "token.codes")
        codes.int32_data.extend(numpy_helper.to_array(codes).flatten().tolist())
        codes.ClearField("raw_data")

    assert inspect_file(changed(unpack), verify=True).exit_code == 0


def test_changed_manifest_is_refused(changed):
    def change(model):
        entry = next(item for item in model.metadata_props if item.key == "edge_embed.tables")
        entry.value = entry.value.replace('"num_embeddings":500', '"num_embeddings":400', 1)

    with pytest.raises(BadInputError, match="manifest: its hash is"):
        inspect_file(changed(change))


def test_verify_without_manifest_reports_difference(changed):
    path = changed(lambda model: model.ClearField("metadata_props"))
    report = inspect_file(path)
    assert (report.exit_code, len(report.tables)) == (0, 2)
    report = inspect_file(path, verify=True)
    assert report.exit_code == 3
    assert set(status(report).values()) == {"no hash"}
    assert "manifest is missing" in report.differences[0]


def test_node_that_contradicts_manifest_is_difference(changed):
    def change(model):
        for item in attributes(model, "padding_idx"):
            item.i = 4

    report = inspect_file(changed(change))
    assert report.exit_code == 3
    assert "table 'token': its node has" in report.differences[0]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("format_version", 2, "format_version: got 2, expected 1: upgrade edge-embed"),
        ("format_version", 0, "format_version: got 0, expected 1: export the model again"),
        ("bits", 5, "bits: got 5, expected 4 for 16 codes"),
        ("num_codes", 1, "got 1, expected"),
        ("num_codes", 15, r"values: got float32 \[8, 16, 4\], expected float32 \[8, 15, 4\]"),
        ("num_groups", 0, "got 0, expected a positive integer"),
        ("num_groups", 2**62, "embedding_dim: got"),
        ("padding_idx", 500, "padding_idx: got 500, expected -1 to 499"),
    ],
)
def test_node_that_contradicts_its_tensors_is_refused(changed, name, value, message):
    def change(model):
        for item in attributes(model, name):
            item.i = value

    with pytest.raises(BadInputError, match=message):
        inspect_file(changed(change))


def test_nodes_that_contradict_each_other_are_refused(changed):
    def change(model):
        attributes(model, "padding_idx")[1].i = 4

    with pytest.raises(BadInputError, match=r"table 'token': two nodes describe it differently"):
        inspect_file(changed(change))


def test_attribute_missing_from_node_is_named(changed):
    def change(model):
        node = next(node for node in model.graph.node if node.domain == "edge_embed")
        node.attribute.remove(attributes(model, "num_groups")[0])

    with pytest.raises(BadInputError, match="no integer attribute num_groups"):
        inspect_file(changed(change))


def test_unknown_operator_of_domain_is_named(changed):
    def change(model):
        next(node for node in model.graph.node if node.domain == "edge_embed").op_type = "FutureEmbedding"

    with pytest.raises(BadInputError, match="got operator 'FutureEmbedding', expected one of DPQEmbedding"):
        inspect_file(changed(change))


# Changes that follow-up tools make.


def test_missing_body_gives_warning(changed):
    report = inspect_file(changed(lambda model: model.ClearField("functions")), verify=True)
    assert report.exit_code == 0
    (operator,) = report.onnx.operators
    assert (operator.nodes, operator.body) == (3, False)
    assert "DPQEmbedding: no portable body, the file needs the operator library" in report.warnings[0]


def test_inlined_nodes_give_warning_and_tables_are_verified(changed):
    report = inspect_file(changed(inliner.inline_local_functions), verify=True)
    assert report.exit_code == 0
    assert report.onnx.operators == []
    assert "no node of edge-embed is left" in report.warnings[0]
    assert status(report) == {"token": "matches", "topic": "matches"}
    assert [dense.name for dense in report.dense] == ["position"]


def test_optimised_model_gives_warning_and_is_verified(files):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(files / "optimised.onnx")
    onnxruntime.InferenceSession(files / "model.onnx", options, providers=["CPUExecutionProvider"])
    report = inspect_file(files / "optimised.onnx", verify=True)
    assert report.exit_code == 0  # its tensors are unchanged
    assert "no node of edge-embed is left" in report.warnings[0]
    assert [dense.name for dense in report.dense] == ["position"]


def test_body_without_node_gives_warning(changed):
    def change(model):
        functions = list(model.functions)
        model = inliner.inline_local_functions(model)
        model.functions.extend(functions)
        return model

    report = inspect_file(changed(change))
    (operator,) = report.onnx.operators
    assert (operator.nodes, operator.body) == (0, True)
    assert "DPQEmbedding has a body, but no node uses it" in report.warnings[0]


def test_tensor_renamed_after_inlining_cannot_be_verified(changed):
    def change(model):
        model = inliner.inline_local_functions(model)
        initializer(model, "token.codes").name = "renamed"
        return model

    report = inspect_file(changed(change), verify=True)
    assert report.exit_code == 3
    assert status(report) == {"token": "no hash", "topic": "matches"}
    assert any("tensor 'token.codes' is missing" in text for text in report.warnings)


def test_table_in_constant_node_is_listed_from_manifest(changed):
    def change(model):
        codes = initializer(model, "token.codes")
        model.graph.initializer.remove(codes)
        model.graph.node.insert(0, helper.make_node("Constant", [], ["token.codes"], value=codes))

    report = inspect_file(changed(change), verify=True)
    assert report.exit_code == 3
    assert status(report)["token"] == "no hash"
    assert {table.name: table.num_embeddings for table in report.tables} == {"token": 500, "topic": 500}


def test_nodes_in_branch_are_found(changed):
    def change(model):
        inside = helper.make_graph(
            list(model.graph.node), "inside", [], [helper.make_tensor_value_info("logits", 1, None)]
        )
        branch = helper.make_node("If", ["condition"], ["logits"], then_branch=inside, else_branch=inside)
        del model.graph.node[:]
        model.graph.node.append(branch)

    report = inspect_file(changed(change), verify=True)
    assert report.exit_code == 0
    assert report.onnx.operators[0].nodes == 6
    assert set(status(report)) == {"token", "topic"}


def test_model_of_another_tool_is_reported_with_note(tmp_path):
    table = numpy_helper.from_array(np.zeros((7, 4), np.float16), "embed.weight")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["embed.weight", "ids"], ["rows"])],
        "other",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, [None, 5])],
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT16, None)],
        [table],
    )
    onnx.save(helper.make_model(graph), tmp_path / "other.onnx")
    report = inspect_file(tmp_path / "other.onnx")
    assert report.notes == ["no compressed table of edge-embed: a model made by another tool"]
    assert [(dense.name, dense.dtype, dense.stored_bytes) for dense in report.dense] == [("embed", "float16", 56)]
    assert report.inputs[0].shape == [None, 5]
    assert report.onnx.format_version is None


def test_tensor_name_used_twice_is_refused(changed):
    def change(model):
        model.graph.initializer.append(initializer(model, "token.codes"))

    with pytest.raises(BadInputError, match=r"two initializers are named 'token.codes'"):
        inspect_file(changed(change))


def test_metadata_key_used_twice_is_refused(changed):
    def change(model):
        model.metadata_props.append(model.metadata_props[0])

    with pytest.raises(BadInputError, match="metadata key twice"):
        inspect_file(changed(change))


@pytest.mark.parametrize("key", ["edge_embed.vocabulary", "edge_embed.metadata"])
@pytest.mark.parametrize("value", ["", "3", "[", "[" * 100_000, '"text"'])
def test_metadata_that_is_not_json_is_refused(changed, key, value):
    def change(model):
        next(item for item in model.metadata_props if item.key == key).value = value

    with pytest.raises(BadInputError, match=r"damaged|expected a JSON"):
        inspect_file(changed(change))


@pytest.mark.parametrize("count", [-1, 0, 3, 2**62])
def test_tensor_with_wrong_number_of_bytes_is_refused(changed, count):
    def change(model):
        initializer(model, "output.bias").dims[0] = count

    with pytest.raises(BadInputError, match=r"tensor 'output.bias': got (8 bytes, expected|shape \[-1\])"):
        inspect_file(changed(change))
