"""Readers and writers of archives: static libraries, universal files, zip files."""

import os

import pytest

from edge_embed.errors import BadInputError
from edge_embed.packages.archive import MAGIC, read_members
from edge_embed.packages.universal import join_slices, split_slices
from edge_embed.packages.zipped import zip_folder


def member(name: bytes, content: bytes) -> bytes:
    head = name.ljust(16) + b"0".ljust(12) + b"0".ljust(6) * 2 + b"644".ljust(8) + str(len(content)).encode().ljust(10)
    return head + b"`\n" + content + b"\n" * (len(content) % 2)


GNU = MAGIC + member(b"/", b"symbols") + member(b"//", b"a_name_that_is_long.o/\n") + member(b"/0", b"one")
BSD = MAGIC + member(b"__.SYMDEF", b"symbols") + member(b"#1/24", b"a_name_that_is_long.o\0\0\0one")


@pytest.mark.parametrize("data", [GNU, BSD], ids=["gnu", "bsd"])
def test_archive_members_have_their_long_names(data):
    assert list(read_members(data + member(b"b.o/", b"more"))) == [("a_name_that_is_long.o", b"one"), ("b.o", b"more")]


@pytest.mark.parametrize(
    "data", [GNU[:-2], BSD[: len(MAGIC) + 30], MAGIC + member(b"b.o/", b"x").replace(b"1 ", b"x ")]
)
def test_damaged_archive_is_refused(data):
    with pytest.raises(BadInputError, match="the archive ends within a member"):
        list(read_members(data))


def test_universal_file_returns_its_parts_at_page_boundaries():
    parts = {"arm64": b"a" * 20_000, "x86-64": b"b" * 5}
    data = join_slices(parts)
    assert split_slices(data) == list(parts.values())
    assert data.index(b"aaaa") % 16384 == data.index(b"bbbb") % 16384 == 0
    assert split_slices(b"one") == [b"one"]


@pytest.mark.parametrize("length", [10, 40, -1])
def test_truncated_universal_file_is_refused(length):
    with pytest.raises(BadInputError, match="ends before its parts"):
        split_slices(join_slices({"arm64": b"a" * 9, "x86-64": b"b"})[:length])


def test_zip_of_same_files_has_same_bytes(tmp_path):
    for name, time in (("one", 10**9), ("two", 1.5e9)):
        folder = tmp_path / name / "sub"
        folder.mkdir(parents=True)
        for file in ("b", "a"):
            (folder / file).write_text(file)
            os.utime(folder / file, (time, time))
        zip_folder(tmp_path / name, tmp_path / f"{name}.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
