"""Valid files of other kinds: every command names the kind and the remedy."""

import gzip
import io
import json
import lzma
import os
import pickle
import tarfile
import zipfile
import zlib
from functools import partial

import numpy as np
import onnx
import pytest
import torch
import torch.distributed.checkpoint as distributed
from click.testing import CliRunner
from torch import nn

from edge_embed import cli
from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import inspect_file
from edge_embed.program.file_kind import check_runtime_file, kind_in
from edge_embed.program.load import load_program
from edge_embed.program.state_dict import load_weights

from ..error_line import error_line

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
VECTORS = b"".join(b"word%d 0.25 -1.5 3.75\n" % row for row in range(500))


def zipped(*names: str) -> bytes:
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return buffer.getvalue()


def tarred(name: str = "model.pt", content: bytes = b"") -> bytes:
    with tarfile.open(fileobj=(buffer := io.BytesIO()), mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


KINDS = [
    (LFS, "Git LFS pointer.*git lfs pull"),
    (b"<!DOCTYPE html>\n<html><head></head></html>", "a web page"),
    (b"\n  <HTML><body>Sign in</body>", "a web page"),
    (b"\x89HDF\r\n\x1a\n" + bytes(90), "HDF5 file"),
    (b"GGUF\x03\0\0\0" + bytes(90), "GGUF"),
    (b"PAR1" + bytes(90) + b"PAR1", "Parquet"),
    (b"ARROW1\0\0" + bytes(90), "Arrow"),
    (b"%PDF-1.7\n" + bytes(90), "PDF"),
    (b"\x89PNG\r\n\x1a\n" + bytes(90), "image"),
    (b"\xff\xd8\xff\xe0" + bytes(90), "image"),
    (lzma.compress(b"x"), "xz file: unpack it"),
    (tarred(), "tar archive: unpack it"),
    (gzip.compress(tarred(), mtime=0), "gzip file"),
    (tarred("vectors.txt", VECTORS), "tar archive: unpack it"),
    (gzip.compress(tarred("a.vec", VECTORS), mtime=0), "gzip file without .*unpack it"),
    (b"\x04\x22\x4d\x18" + bytes(90), "lz4 file: unpack it"),
    (lzma.compress(b"x", lzma.FORMAT_ALONE), "lzma file: unpack it"),
    (zlib.compress(pickle.dumps(np.ones(9))), "compressed pickle, such as joblib's: save its embedding matrix"),
    (pickle.dumps({"w": np.ones((3, 2))}), "a pickle of numpy arrays: save its embedding matrix with numpy.save"),
    (pickle.dumps({"w": torch.ones(3)}), "a pickle of tensors from pickle.dump .*torch.save"),
    (pickle.dumps([1, "a"]), "a pickle, which torch.save did not write: load it"),
    (b"\x80\x02cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}bd" + b"\x01" * 90, "a file of joblib"),
    (b"\x80\x04\x8c\x1agensim.models.keyedvectors\x8c\x0cKeyedVectors\x93)\x81.", "gensim.*save_word2vec_format"),
    (b"\x80\x02cmy.module\nThing\n)\x81.", "a pickle of my.module.Thing, which torch.save did not write"),
    (json.dumps({"weight_map": {"a": "pytorch_model-00001-of-00002.bin"}}).encode(), "several files of torch.save"),
    (zipped("glove.6B.50d.txt", "glove.6B.100d.txt"), r"zip archive of 2 files \(glove.6B.50d.txt.*unpack it"),
    (zipped("config.json", "model.weights.h5", "metadata.json"), "Keras model"),
    (b"\x1c\0\0\0ET12" + bytes(90), "ExecuTorch"),
    (b"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02" + bytes(9), "SentencePiece"),
    (b"\x81\xa6params\x82\xa5Dense\x81\xa6kernel" + bytes(20), "msgpack"),
    (bytes(100) + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb", "TensorFlow checkpoint"),
    (json.dumps({"metadata": {}, "weight_map": {"a": "b"}}).encode(), "index of a safetensors model.*the folder"),
    (json.dumps({"version": "1.0", "added_tokens": [], "model": {}}).encode(), "tokenizer.*--tokenizer"),
    (json.dumps({"model_type": "bert"}).encode(), "configuration of a transformers model.*the folder"),
    (b'{"a": 1}', "a JSON file"),
    ("text".encode("utf-16"), "UTF-16"),
    (b"Call me Ishmael. Some years ago, never mind how long.\n" * 3, "text file without vectors"),
]


@pytest.mark.parametrize(("content", "match"), KINDS, ids=[match for _, match in KINDS])
def test_file_kind_is_named_by_readers_of_models_and_reports(tmp_path, content, match):
    path = tmp_path / "file"
    path.write_bytes(content)
    for read in (load_program, inspect_file):
        with pytest.raises(BadInputError, match=match) as caught:
            read(path)
        assert "damaged" not in str(caught.value)
    (tmp_path / "model.pt").write_bytes(content)
    with pytest.raises(BadInputError, match=match):
        load_program(tmp_path / "model.pt")


def test_folders_and_links_are_named(tmp_path):
    for name, content, match in [
        ("saved", "saved_model.pb", "SavedModel folder of TensorFlow"),
        ("adapter", "adapter_config.json", "merge_and_unload"),
        ("distributed", ".metadata", "dcp_to_torch"),
        ("package.mlpackage", "Manifest.json", "Core ML package"),
        ("models", "b.tflite", r"a folder without config.json, but with b.tflite"),
        ("graphs", "b.onnx", r"without genai_config.json \(ONNX Runtime GenAI\) and config.json \(transformers\), but"),
    ]:
        (tmp_path / name).mkdir()
        (tmp_path / name / content).touch()
        for read in (load_program, inspect_file):
            with pytest.raises(BadInputError, match=match):
                read(tmp_path / name)
    (tmp_path / "link.pt").symlink_to(tmp_path / "gone.pt")
    for read in (load_program, inspect_file):
        with pytest.raises(BadInputError, match=r"a link to .*gone\.pt, which does not exist"):
            read(tmp_path / "link.pt")


def test_folder_of_transformers_in_place_of_exported_file_is_named(tmp_path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(BadInputError, match="is the folder of a transformers model: export it to"):
        check_runtime_file(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "model.onnx")  # as optimum exports it
    with pytest.raises(BadInputError, match=r"and \.safetensors \(transformers\), but with model\.onnx: give the ONNX"):
        check_runtime_file(tmp_path)


def test_link_to_itself_is_named(tmp_path):
    (tmp_path / "a.pt").symlink_to(tmp_path / "b.pt")
    (tmp_path / "b.pt").symlink_to(tmp_path / "a.pt")
    for read in (load_program, inspect_file):
        with pytest.raises(BadInputError, match=r"a link to .*b\.pt, which links back to it"):
            read(tmp_path / "a.pt")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata"])
def test_files_of_distributed_checkpoint_are_named(tmp_path, name):
    distributed.save({"w": torch.ones(3), "b": torch.ones(2)}, checkpoint_id=tmp_path / "d")
    for read in (load_program, inspect_file, partial(load_weights, partial(nn.Linear, 2, 2))):
        with pytest.raises(BadInputError, match="dcp_to_torch"):
            read(tmp_path / "d" / name)


def test_own_kinds_and_damaged_files_are_left_to_their_readers(tmp_path):
    for content in (pickle.dumps([1]), b"PK\x03\x04 cut", b"\x08\x0a\x12\x07pytorch" + bytes(40), bytes(64)):
        (tmp_path / "f").write_bytes(content)
        assert kind_in(tmp_path / "f") is None
    np.save(tmp_path / "v.npy", np.ones((2, 2)))
    assert kind_in(tmp_path / "v.npy") is None
    (tmp_path / "m.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(40))
    check_runtime_file(tmp_path / "m.tflite")


def test_torchscript_archive_is_named(tmp_path):
    for names in (("a/data.pkl", "a/constants.pkl", "a/code/__torch__.py"), ("a/data.pkl", "a/bytecode.pkl")):
        (tmp_path / "m.pt").write_bytes(zipped(*names))
        with pytest.raises(BadInputError, match="TorchScript archive"):
            load_program(tmp_path / "m.pt")


@pytest.mark.parametrize("name", ["model.onnx", "model.tflite", "model.pt", "model.safetensors"])
def test_commands_name_kind_in_place_of_model(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(LFS)
    for command in (
        ["inspect", str(path)],
        ["compress", str(path), "-o", str(tmp_path / f"out{path.suffix}"), "--method", "rows", "--bits", "8"],
        ["export", str(path), "--target", "onnx", "-o", str(tmp_path / "out.onnx")],
    ):
        done = CliRunner().invoke(cli.main, command)
        assert (done.exit_code, "git lfs pull" in done.output) == (2, True), done.output


def test_pytorch_file_in_place_of_runtime_file_is_named(tmp_path):
    layer = torch.nn.Embedding(3, 2)
    torch.save(layer.state_dict(), tmp_path / "new.onnx")
    torch.save(layer.state_dict(), tmp_path / "old.tflite", _use_new_zipfile_serialization=False)
    (tmp_path / "weights.onnx").write_bytes(b"\x02" + bytes(7) + b"{}")
    for name, kind in (("new.onnx", "PyTorch"), ("old.tflite", "a pickle"), ("weights.onnx", "a safetensors file")):
        with pytest.raises(BadInputError, match=f"is .*{kind}.*edge-embed export"):
            check_runtime_file(tmp_path / name)


def test_onnx_model_is_inspected_with_any_file_ending(tmp_path):
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    for name in ("model.pt", "model.tflite", "model.safetensors"):
        onnx.save(onnx.helper.make_model(graph), tmp_path / name)
        assert inspect_file(tmp_path / name).kind == "onnx"


@pytest.mark.parametrize("path", ["/proc/self/mem", "/proc/kmsg"])
def test_endless_file_of_proc_is_refused_as_empty(path):
    if not os.path.exists(path):
        pytest.skip(f"{path} is missing: no Linux, or no /proc")
    for command in (
        ["export", path, "--target", "onnx", "-o", "out.onnx"],
        ["compress", path, "-o", "out.pt"],
        ["check", path, path],
    ):
        done = CliRunner().invoke(cli.main, command)
        assert done.exit_code == 2
        assert "is empty" in error_line(done)
