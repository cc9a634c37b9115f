"""What is no regular file is refused before it is opened, in every place that takes one."""

import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.importers.find import load_foreign
from edge_embed.importers.word2vec_binary import read_word2vec_binary
from edge_embed.importers.word2vec_text import read_word2vec_text
from edge_embed.input_file import check_regular, path_beside, read_whole
from edge_embed.inspection.inspect import inspect_file
from edge_embed.program.load import load_program


@pytest.fixture
def odd(tmp_path):
    """Paths that are no files, by name."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to("first")
    (tmp_path / "linked").symlink_to("pipe")
    listening = socket.socket(socket.AF_UNIX)
    before = Path.cwd()
    os.chdir(tmp_path)  # names of sockets are short
    listening.bind("socket")
    os.chdir(before)
    yield {name: tmp_path / name for name in "pipe folder first linked socket".split()} | {
        "device": Path("/dev/zero"),
        "made up": Path("/proc/self/status"),
    }
    listening.close()


@pytest.mark.parametrize("name", ["pipe", "folder", "first", "linked", "socket", "device", "made up"])
def test_readers_refuse_it_without_opening_it(odd, name):
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
def test_commands_refuse_it_with_exit_code_2(odd, name, arguments):
    done = CliRunner().invoke(main, [argument.format(odd[name]) for argument in arguments])
    assert done.exit_code == 2, done.output
    assert "Error: " in done.stderr
    assert not isinstance(done.exception, OSError)


def test_a_file_that_is_made_up_as_it_is_read_counts_as_empty():
    assert read_whole(Path("/proc/self/status"), 100, "text") == b""


def test_a_file_is_read_up_to_a_limit(tmp_path):
    path = tmp_path / "x"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadInputError, match="has more than 1,000 bytes"):
        read_whole(path, 1000, "text")
    path.write_bytes(b"abc")
    assert read_whole(path, 3, "text") == b"abc"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "..\\x", "C:\\x", "out", "", "a\0b", "\ud800"])
def test_a_path_beside_a_model_stays_there(tmp_path, name):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "out").symlink_to(tmp_path / "x")
    with pytest.raises(BadInputError):
        path_beside(tmp_path / "model", name, "shard")
    assert path_beside(tmp_path / "model", "a/b", "shard") == tmp_path / "model" / "a" / "b"
    assert path_beside(tmp_path / "model", "out", "shard", tmp_path) == tmp_path / "model" / "out"


@pytest.mark.parametrize(
    ("start", "read", "message"),
    [
        (b"2 2\na 1 2\nb 3 4\n", read_word2vec_text, "line 4: is no text, but zeros"),
        (b"a 1 2\nb 3 4\n", read_word2vec_text, "line 3: is no text, but zeros"),
        (b"1 1\na \0\0\x80?", read_word2vec_binary, "goes on after the"),
        (b"3 2\n" + b"a " + bytes(8), read_word2vec_binary, "goes on after the"),
    ],
)
def test_vectors_with_a_hole_behind_them_are_not_read_to_the_end(tmp_path, start, read, message):
    path = tmp_path / "vectors"
    path.write_bytes(start)
    os.truncate(path, 256 << 30)
    with pytest.raises(BadInputError, match=message):
        read(path)


@pytest.mark.parametrize("begin", [b"PK\x03\x04", b"\x1c\0\0\0TFL3", b"\x1c\0\0\0ORTM", b"\x08\x0a", b"\x93NUMPY"])
def test_files_of_256_gib_of_nothing_are_refused(tmp_path, begin):
    path = tmp_path / "model.bin"
    path.write_bytes(begin)
    os.truncate(path, 256 << 30)
    with pytest.raises(BadInputError):
        inspect_file(path)
