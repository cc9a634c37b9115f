"""A damaged file of any kind is bad input (exit code 2), and the error names the file."""

import os

import onnx
import pytest

from edge_embed.errors import BadInputError
from edge_embed.validation.exported_file import ExportedModel


def refused(exported, message: str) -> None:
    with pytest.raises(BadInputError, match=message) as caught:
        exported.validate()
    assert str(exported.path) in str(caught.value)
    assert caught.value.exit_code == 2


def place(name: str, **new: str):
    """Change the declared place of a tensor's external data."""

    def change(model: onnx.ModelProto) -> None:
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
        for entry in tensor.external_data:
            entry.value = new.get(entry.key, entry.value)

    return change


def test_missing_file_is_refused(inline):
    inline.path.unlink()
    refused(inline, "no such file")


def test_file_of_other_format_is_refused(inline):
    inline.path.write_bytes(b"PK\x03\x04 this is something else")
    refused(inline, "damaged or not an ONNX model|truncated or not an ONNX model")


def test_empty_file_is_refused(inline):
    inline.path.write_bytes(b"")
    refused(inline, "truncated or not an ONNX model")


def test_truncated_file_is_refused_at_every_length(inline):
    content = inline.path.read_bytes()
    for length in (*range(1, len(content), len(content) // 97), len(content) - 1):
        inline.path.write_bytes(content[:length])
        with pytest.raises(BadInputError):
            ExportedModel(inline.path)


def test_missing_external_data_is_named(external):
    external.data.unlink()
    refused(external, external.data.name)


def test_short_external_data_is_refused(external):
    content = external.data.read_bytes()
    external.data.write_bytes(content[:-1])
    refused(external, "expected at least")


def test_external_length_below_tensor_size_is_refused(external):
    external.edit(place("topic.values", length="8"))
    refused(external, "topic.values")


@pytest.mark.parametrize("location", ["../outside.data", "/etc/hostname", "a/../../outside.data", ""])
def test_external_data_outside_folder_is_refused(external, location):
    (external.path.parent.parent / "outside.data").write_bytes(external.data.read_bytes())
    external.edit(place("topic.values", location=location))
    refused(external, "external data")


def test_symbolic_link_out_of_folder_is_refused(external):
    outside = external.path.parent.parent / "outside.data"
    external.data.rename(outside)
    os.symlink(outside, external.data)
    refused(external, "outside the model's folder")


def test_node_unknown_to_every_runtime_is_named(inline):
    def change(model: onnx.ModelProto) -> None:
        next(node for node in model.graph.node if node.op_type == "LSTM").op_type = "LSTN"

    inline.edit(change)
    refused(inline, "LSTN")


def test_damaged_manifest_is_refused(inline):
    def change(model: onnx.ModelProto) -> None:
        model.metadata_props[0].value = model.metadata_props[0].value.replace('"dpq"', '"dpp"', 1)

    inline.edit(change)
    refused(inline, "manifest")
