"""TFLite files: `inspect` recognises, lists and verifies them, and refuses damaged ones."""

import contextlib
import io
import shutil
from copy import deepcopy
from typing import ClassVar

import flatbuffers
import pytest
import torch
from rich.console import Console

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import inspect_file
from edge_embed.inspection.render import render_file

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("tflite")
    layer = edge_embed.DPQEmbedding(500, 32, 16, 8, padding_idx=3)
    options = {"vocabulary": [f"w{index}" for index in range(500)], "metadata": {"task": "words"}}
    edge_embed.save(layer, folder / "model.pt", torch.tensor([[1, 2]]), **options)
    edge_embed.export(folder / "model.pt", "tflite", folder / "model.tflite", tflite_table="pairs")
    return folder / "model.tflite"


@pytest.fixture
def copy(exported, tmp_path):
    return shutil.copy(exported, tmp_path / "copy.tflite")


def test_tflite_file_lists_tables_vocabulary_and_metadata(exported):
    report = inspect_file(exported, verify=True)
    assert (report.kind, report.exit_code, report.differences, report.notes) == ("tflite", 0, [], [])
    (table,) = report.tables
    assert (table.name, table.method, table.padding_idx, table.hash_status) == ("embedding", "dpq", 3, "matches")
    assert table.stored_bytes == 500 * 4 + (256 * 4 + 1) * 8 * 4  # codes, pairs of float32, a row of zeros
    assert (report.vocabulary_size, report.metadata) == (500, {"task": "words"})
    assert [(port.name, port.dtype, port.shape) for port in (*report.inputs, *report.outputs)] == [
        ("ids", "int64", [None, None]),
        ("output", "float32", [None, None, 32]),
    ]
    assert report.tflite.layouts == {"embedding": "pairs"}
    assert report.tflite.operators["GATHER"] == 3


def test_tflite_file_is_printed_with_its_layout(exported):
    file = io.StringIO()
    render_file(inspect_file(exported), Console(file=file))
    shown = file.getvalue()
    assert shown.startswith(f"{exported}: TFLite model, ")
    assert "table embedding: layout pairs" in shown


@pytest.mark.parametrize("tensor", ["codes", "pairs"])
def test_verify_finds_bit_flip_in_tflite_table(copy, tensor):
    from edge_embed.inspection.tflite_file import read_tflite

    content = bytearray(copy.read_bytes())
    stored = read_tflite(copy).tensors[f"embedding.{tensor}"].tobytes()
    content[content.index(stored) + 100] ^= 1
    copy.write_bytes(content)
    report = inspect_file(copy, verify=True)
    assert report.exit_code == 3
    assert f"embedding.{tensor} differ" in report.differences[0]


def test_damaged_files_are_refused_or_read(copy):
    """Files are truncated anywhere, or get bytes of 0xff in the part before the tables."""
    whole = copy.read_bytes()
    for length in range(8, len(whole), len(whole) // 40):
        copy.write_bytes(whole[:length])
        with pytest.raises(BadInputError, match=r"copy\.tflite"):
            inspect_file(copy, verify=True)
    for at in range(8, 4096, 16):
        copy.write_bytes(whole[:at] + b"\xff" * 4 + whole[at + 4 :])
        with contextlib.suppress(BadInputError):
            inspect_file(copy, verify=True)


def change(path, edit, builder=None):
    """Rewrite the file after `edit` has changed the schema's object of the model."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(path.read_bytes())
    edit(model)
    builder = builder or flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(builder.Output())


def metadata_becomes(key, text):
    def edit(model):
        (entry,) = (entry for entry in model.metadata if entry.name == key.encode())
        model.buffers[entry.buffer].data = list(text)

    return edit


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("edge_embed.layouts", b"[" * 5000),
        ("edge_embed.layouts", b'{"embedding": {"sha256": {}}}'),
        ("edge_embed.layouts", b"\xff"),
        ("edge_embed.vocabulary", b"7"),
    ],
    ids=["nested", "incomplete", "no text", "no list"],
)
def test_metadata_that_are_invalid_are_refused(copy, key, text):
    change(copy, metadata_becomes(key, text))
    with pytest.raises(BadInputError, match=r"copy\.tflite: .*export it again"):
        inspect_file(copy)


def test_tensors_that_share_their_names_are_refused(copy):
    """The file has 600 kB and would take 500 MB in memory."""

    class Sharing(flatbuffers.Builder):
        made: ClassVar = {}

        def CreateString(self, text):
            if text not in self.made:
                self.made[text] = super().CreateString(text)
            return self.made[text]

    def edit(model):
        tensor = model.subgraphs[0].tensors[0]
        tensor.name = b"x" * 100_000
        model.subgraphs[0].tensors += [tensor] * 5000

    change(copy, edit, Sharing(1 << 20))
    assert copy.stat().st_size < 1 << 20
    with pytest.raises(BadInputError, match="its parts overlap"):
        inspect_file(copy)


def test_tensor_name_used_twice_is_reported_as_difference(copy):
    """The names do not show which of the two tensors the graph uses."""

    def edit(model):
        tensors = model.subgraphs[0].tensors
        (codes,) = (tensor for tensor in tensors if tensor.name == b"embedding.codes")
        other = deepcopy(codes)
        other.buffer = len(model.buffers)
        model.buffers.append(deepcopy(model.buffers[codes.buffer]))
        tensors.append(other)

    change(copy, edit)
    report = inspect_file(copy, verify=True)
    assert report.exit_code == 3
    assert "cannot be compared" in report.differences[0]


def test_tensors_that_share_buffer_are_verified(copy):
    def edit(model):
        (codes,) = (tensor for tensor in model.subgraphs[0].tensors if tensor.name == b"embedding.codes")
        model.subgraphs[0].tensors += [codes] * 50

    change(copy, edit)
    assert inspect_file(copy, verify=True).exit_code == 0
