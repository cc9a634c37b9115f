"""Input paths that are not regular files: every reader and command refuses them before they are opened."""

import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.importers.fasttext_model import MAGIC
from edge_embed.importers.recognize import load_foreign
from edge_embed.importers.word2vec_binary import read_word2vec_binary
from edge_embed.importers.word2vec_text import read_word2vec_text
from edge_embed.input_file import check_regular, mapped, path_beside, read_whole
from edge_embed.inspection.inspect import inspect_file
from edge_embed.program.checkpoint import read_checkpoint
from edge_embed.program.load import load_program


@pytest.fixture
def odd(tmp_path):
    """Return paths that are not regular files, by name."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to("first")
    (tmp_path / "linked").symlink_to("pipe")
    listening = socket.socket(socket.AF_UNIX)
    before = Path.cwd()
    os.chdir(tmp_path)  # a socket needs a short path
    listening.bind("socket")
    os.chdir(before)
    yield {name: tmp_path / name for name in "pipe folder first linked socket".split()} | {
        "device": Path("/dev/zero"),
        "made up": Path("/proc/self/status"),
    }
    listening.close()


@pytest.mark.parametrize("name", ["pipe", "folder", "first", "linked", "socket", "device", "made up"])
def test_readers_refuse_paths_that_are_not_files(odd, name):
    for read in (check, load_program, load_foreign_or_refuse, inspect_file):
        with pytest.raises(BadInputError):
            read(odd[name])


def check(path):
    return check_regular(path, "anything")


def load_foreign_or_refuse(path):
    if load_foreign(path) is None:
        raise BadInputError("not of another tool")


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "{}", "--target", "onnx", "-o", "out.onnx"],
        ["compress", "{}", "-o", "out.pt", "--ratio", "4"],
        ["compress", "absent.pt", "-o", "out.pt", "--ratio", "4", "--counts", "words={}"],
        ["compare", "{}", "{}"],
        ["check", "--budget", "{}"],
        ["inspect", "{}"],
    ],
)
@pytest.mark.parametrize("name", ["pipe", "linked", "first", "device", "socket"])
def test_commands_exit_with_2_for_paths_that_are_not_files(odd, name, arguments):
    done = CliRunner().invoke(main, [argument.format(odd[name]) for argument in arguments])
    assert done.exit_code == 2, done.output
    assert "Error: " in done.stderr
    assert not isinstance(done.exception, OSError)


def test_virtual_file_of_unknown_size_reads_as_empty():
    assert read_whole(Path("/proc/self/status"), 100, "text") == b""


def test_read_whole_refuses_file_over_limit(tmp_path):
    path = tmp_path / "x"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadInputError, match="has more than 1,000 bytes"):
        read_whole(path, 1000, "text")
    path.write_bytes(b"abc")
    assert read_whole(path, 3, "text") == b"abc"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "..\\x", "C:\\x", "out", "", "a\0b", "\ud800"])
def test_path_beside_refuses_paths_outside_folder(tmp_path, name):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "out").symlink_to(tmp_path / "x")
    with pytest.raises(BadInputError):
        path_beside(tmp_path / "model", name, "shard")
    assert path_beside(tmp_path / "model", "a/b", "shard") == tmp_path / "model" / "a" / "b"
    assert path_beside(tmp_path / "model", "out", "shard", tmp_path) == tmp_path / "model" / "out"


@pytest.mark.parametrize(
    ("start", "read", "message"),
    [
        (b"2 2\na 1 2\nb 3 4\n", read_word2vec_text, "line 4: got zeros, expected text"),
        (b"a 1 2\nb 3 4\n", read_word2vec_text, "line 3: got zeros, expected text"),
        (b"1 1\na \0\0\x80?", read_word2vec_binary, "content exceeds .* bytes"),
        (b"3 2\n" + b"a " + bytes(8), read_word2vec_binary, "content exceeds .* bytes"),
    ],
)
def test_vectors_followed_by_hole_are_refused(tmp_path, start, read, message):
    path = tmp_path / "vectors"
    path.write_bytes(start)
    os.truncate(path, 256 << 30)
    with pytest.raises(BadInputError, match=message):
        read(path)


@pytest.mark.parametrize("begin", [b"PK\x03\x04", b"\x1c\0\0\0TFL3", b"\x1c\0\0\0ORTM", b"\x08\x0a", b"\x93NUMPY"])
def test_sparse_files_of_256_gib_are_refused(tmp_path, begin):
    path = tmp_path / "model.bin"
    path.write_bytes(begin)
    os.truncate(path, 256 << 30)
    with pytest.raises(BadInputError):
        inspect_file(path)


def test_map_is_private_and_starts_at_byte_0(tmp_path):
    (tmp_path / "f").write_bytes(b"0123456789")
    with (tmp_path / "f").open("rb") as file:
        file.read(4)
        content = mapped(file)
        assert (bytes(content), file.read(2)) == (b"0123456789", b"45")
    content[0] = 65
    assert (tmp_path / "f").read_bytes() == b"0123456789"


def test_file_larger_than_memory_is_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr("edge_embed.input_file._MOST_HOLE", 1 << 60)
    with (tmp_path / "f").open("w+b") as file:
        file.truncate(1 << 42)
        assert len(mapped(file)) == 1 << 42


@pytest.mark.parametrize(("data", "size"), [(b"", 1 << 41), (b"x" * 9000, 1 << 38)])
def test_file_with_hole_is_refused(tmp_path, data, size):
    with (tmp_path / "f").open("w+b") as file:
        file.write(data)
        file.truncate(size)
        with pytest.raises(BadInputError, match=r"has a hole of \d+,[\d,]+ bytes.*download it again"):
            mapped(file)


@pytest.mark.parametrize("name", ["v.npy", "v.bin", "v.pt"])
def test_readers_of_maps_name_file_with_hole(tmp_path, name):
    path = tmp_path / name
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1073741823, 64), }".ljust(127) + b"\n"
    begins = {
        "v.npy": b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header,
        "v.bin": MAGIC,
        "v.pt": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
    }
    path.write_bytes(begins[name])
    with path.open("r+b") as file:
        file.truncate(len(begins[name]) + 4 * 64 * 1073741823)
    with pytest.raises(BadInputError, match="has a hole of") as caught:
        read_checkpoint(path) if name == "v.pt" else load_foreign(path)
    assert str(caught.value).startswith(str(path))
