"""Reports of `inspect` for each kind of file."""

import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx import bodies
from edge_embed.inspection import onnx_tables
from edge_embed.inspection.inspect import inspect_file
from edge_embed.inspection.report import FileReport, PortInfo, TableInfo
from edge_embed.packed import load_tables

CODES = {"token": 500 * 4, "topic": 500 * 2}
VALUES = {"token": 16 * 32 * 4, "topic": 5 * 8 * 4}


def by_name(report: FileReport) -> dict[str, TableInfo]:
    return {table.name: table for table in report.tables}


@pytest.mark.parametrize("name", ["model.pt", "model.onnx", "external.onnx", "tables.safetensors"])
@pytest.mark.parametrize("verify", [False, True])
def test_tables_are_equal_in_each_kind_of_file(made, name, verify):
    report = inspect_file(made / name, verify)
    assert (report.exit_code, report.warnings, report.differences) == (0, [], [])
    tables = by_name(report)
    assert list(tables) == ["token", "topic"]
    token, topic = tables["token"], tables["topic"]
    assert token.attributes == {"num_codes": 16, "num_groups": 8, "bits": 4, "share_subspaces": False}
    assert topic.attributes == {"num_codes": 5, "num_groups": 4, "bits": 3, "share_subspaces": True}
    assert (token.padding_idx, topic.padding_idx) == (3, None)
    for table in (token, topic):
        assert (table.method, table.num_embeddings, table.embedding_dim) == ("dpq", 500, 32)
        assert table.inference_bytes == {"codes": CODES[table.name], "values": VALUES[table.name]}
        assert table.total_inference_bytes == CODES[table.name] + VALUES[table.name]
        assert table.share == table.stored_bytes / report.total_bytes
    # 32 n d / (n D log2 K + 32 K d), for K = 16
    assert token.compression_ratio == 32 * 500 * 32 / (500 * 8 * 4 + 32 * 16 * 32)
    assert {table.hash_status for table in report.tables} == (
        {"matches"} if verify or name == "model.pt" else {"not checked"}
    )


def test_saved_program_lists_states_and_bytes_of_training(made):
    report = inspect_file(made / "model.pt")
    tables = by_name(report)
    assert (report.kind, tables["token"].state, tables["topic"].state) == ("program", "trainable", "frozen")
    # query [n, d], key and value [D, K, s], mean and variance of the distances [K]
    assert tables["token"].stored_bytes == 4 * (500 * 32 + 2 * 16 * 32 + 2 * 16)
    assert tables["topic"].stored_bytes == tables["topic"].total_inference_bytes


@pytest.mark.parametrize("name", ["model.pt", "model.onnx", "external.onnx"])
def test_model_lists_dense_tables_ports_vocabulary_and_metadata(made, name):
    report = inspect_file(made / name)
    (dense,) = report.dense
    assert (dense.name, dense.num_embeddings, dense.embedding_dim, dense.dtype) == ("position", 20, 32, "float32")
    assert dense.stored_bytes == 20 * 32 * 4
    listed = sum(entry.stored_bytes for entry in [*report.tables, dense])
    assert report.other_bytes == report.total_bytes - listed
    assert report.inputs == [PortInfo("ids", "int64", ["batch", "sequence"])]
    assert [port.name for port in report.outputs] == ["logits"]
    assert report.vocabulary_size == 500
    assert report.metadata == {"task": "words"}


def test_onnx_model_lists_versions_operators_and_data_files(made):
    inline, external = inspect_file(made / "model.onnx"), inspect_file(made / "external.onnx")
    for report in (inline, external):
        assert report.outputs == [PortInfo("logits", "float32", ["batch", "sequence", 2])]
        assert (report.onnx.ir_version, report.onnx.opsets) == (10, {"ai.onnx": 18, "edge_embed": 1})
        assert report.onnx.format_version == 1
        (operator,) = report.onnx.operators
        assert (operator.op_type, operator.nodes, operator.body) == ("DPQEmbedding", 3, True)
    assert inline.onnx.data_files == []
    (data,) = external.onnx.data_files
    size = (made / "external.onnx.data").stat().st_size
    assert (data.name, data.bytes, data.tensors) == ("external.onnx.data", size, 3)
    assert data.alignment >= 64
    assert external.total_bytes == external.file_bytes + size


@pytest.mark.parametrize(
    ("name", "contents"), [("module.pt", "module"), ("old.pt", "module"), ("state.pt", "state_dict")]
)
def test_torch_save_file_is_recognised_and_not_run(made, name, contents):
    report = inspect_file(made / name, verify=True)
    assert (report.kind, report.torch_save.contents, report.tables) == ("torch_save", contents, [])
    assert "edge_embed.save(model" in report.notes[0]
    words = [name for name in report.torch_save.names if name.endswith(".Words")]
    assert len(words) == (contents == "module")


def test_torch_save_file_lists_bytes_of_tensors(made):
    frozen = CODES["topic"] + VALUES["topic"]
    trained = 4 * (500 * 32 + 2 * 16 * 32 + 2 * 16)
    rest = 4 * (20 * 32 + 2 * 32 + 2)
    assert inspect_file(made / "state.pt").torch_save.tensor_bytes >= frozen + trained + rest


def test_verify_compares_checksums_of_torch_save_file(files):
    content = bytearray((files / "state.pt").read_bytes())
    values = load_tables(files / "tables.safetensors")["topic"].values.tobytes()
    content[content.index(values)] ^= 1
    (files / "state.pt").write_bytes(content)
    inspect_file(files / "state.pt")
    with pytest.raises(BadInputError, match=r"the checksum of .*/data/\d+ does not match"):
        inspect_file(files / "state.pt", verify=True)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])  # torch compresses code
def test_torchscript_archive_is_recognised(tmp_path, compression):
    with zipfile.ZipFile(tmp_path / "script.pt", "w", compression) as archive:
        for name in ("data.pkl", "constants.pkl"):
            archive.writestr(f"script/{name}", pickle.dumps(()))
        archive.writestr("script/code/__torch__.py", "")
    report = inspect_file(tmp_path / "script.pt")
    assert report.torch_save.contents == "torchscript"
    assert "TorchScript" in report.notes[0]


@pytest.mark.parametrize("protocol", [2, 4])
def test_hostile_pickle_is_listed_and_not_run(tmp_path, protocol):
    class Attack:
        def __reduce__(self):
            return exec, (f"open({str(tmp_path / 'ran')!r}, 'w').close()",)

    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps(Attack(), protocol))
    report = inspect_file(path, verify=True)
    assert [name.rpartition(".")[2] for name in report.torch_save.names] == ["exec"]
    assert report.torch_save.contents == "module"
    assert not (tmp_path / "ran").exists()


def test_safetensors_without_packed_tables_are_word_vectors_or_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    words = np.ones((9, 4), np.float32)
    safetensors.numpy.save_file({"words.weight": words, "bias": np.ones(3)}, path)
    assert [(table.num_embeddings, table.embedding_dim) for table in inspect_file(path).dense] == [(9, 4)]
    safetensors.numpy.save_file(
        {"words.weight": np.ones((9, 4), np.float32), "tags": np.ones((2, 3), np.float32)}, path
    )
    with pytest.raises(BadInputError, match=r"got 2 tables, .*--module NAME.*--model package\.module:function"):
        inspect_file(path)


def test_pickle_not_of_torch_save_is_refused(tmp_path):
    (tmp_path / "model.pt").write_bytes(pickle.dumps({"weights": [1, 2]}))
    with pytest.raises(BadInputError, match=r"a pickle, which torch\.save did not write"):
        inspect_file(tmp_path / "model.pt")


def test_kind_depends_on_content_not_on_suffix(made, tmp_path):
    for name, kind in [("model.pt", "program"), ("model.onnx", "onnx"), ("tables.safetensors", "packed")]:
        path = tmp_path / f"{kind}.bin"
        path.write_bytes((made / name).read_bytes())
        assert inspect_file(path).kind == kind


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello world", "got a file that begins with b'hello wo', expected one of these: a saved program"),
        (b"PK\x05\x06" + bytes(18), "is a zip archive without members: unpack it"),
        (b"PK\x03\x04 cut", "not a complete zip archive"),
    ],
)
def test_files_of_unknown_content_are_refused(tmp_path, content, message):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(BadInputError, match=message):
        inspect_file(tmp_path / "file")


def test_paths_that_are_no_files_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing", "nul\0byte"):
        with pytest.raises(BadInputError, match=r"is an empty folder|cannot be read"):
            inspect_file(path)


@pytest.mark.parametrize("name", ["model.pt", "model.onnx", "external.onnx", "tables.safetensors", "module.pt"])
def test_json_report_has_version_and_common_keys(made, name):
    report = json.loads(json.dumps(inspect_file(made / name).to_json()))
    assert report["schema_version"] == 1
    assert report["path"] == str(made / name)
    assert list(report)[:9] == [
        "schema_version", "exit_code", "path", "kind", "file_bytes", "total_bytes", "verified", "tables", "dense",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["model.onnx", "tables.safetensors", "module.pt"])
def test_inspect_of_other_files_does_not_import_torch(made: Path, name: str):
    code = "import sys; from edge_embed.inspection.inspect import inspect_file; inspect_file(sys.argv[1], True)"
    script = f"{code}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script, made / name], check=False).returncode == 0


def test_operator_names_of_inspect_equal_those_of_exporter():
    exported = {name: (operator.method.node, operator.use) for name, operator in bodies.OPERATORS.items()}
    assert exported == {name: (schema, use) for name, (_, schema, use) in onnx_tables.OPERATORS.items()}
