"""Numpy arrays in files: valid ones are read as numpy reads them, others are refused before memory is allocated."""

import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from edge_embed.array_file import opened_archive, read_array
from edge_embed.cli.compress import _counts
from edge_embed.errors import BadInputError


def npy(header: str, content: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    length = struct.pack("<H" if version == b"\x01\x00" else "<I", len(header))
    return b"\x93NUMPY" + version + length + header.encode() + content


def described(shape: str, dtype: str = "'<i8'") -> str:
    return f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5.0),
        np.array(3, ">i4"),
        np.zeros((0, 7), np.float16),
        np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
        np.arange(20)[::3],
        np.array([["é", "long"], ["", "x"]]),
        np.array([b"a", b"bc"]),
        np.random.default_rng(0).standard_normal((3000, 9)),
    ],
)
def test_array_is_read_as_by_numpy(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    found = read_array(tmp_path / "x.npy")
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    np.savez_compressed(tmp_path / "x.npz", first=array, second=array)
    with opened_archive(tmp_path / "x.npz") as archive:
        assert archive.names == ("first", "second")
        np.testing.assert_array_equal(archive.read("second"), array)


@pytest.mark.parametrize(
    "content",
    [
        npy(described("(10**3,)")),
        npy(described("(99999999999999,)")),
        npy(described("(2**62, 2**62)".replace("2**62", str(2**62)))),
        npy(described("(-1,)"), bytes(64)),
        npy(described("(True,)"), bytes(64)),
        npy(described(str((1,) * 40)), bytes(64)),
        npy(described("(0, 10**30)".replace("10**30", str(10**30)))),
        npy(described("(3,)", "'|O'"), bytes(64)),
        npy(described("(3,)", "[('a', '<i8')]"), bytes(64)),
        npy(described("(2000000000,)", "'<U0'")),
        npy(described("(1,)", "'<U1'"), b"\xff\xff\xff\x7f"),
        npy("[" * 3000),
        npy("(" * 90),
        npy("'''" + "\n" * 50),
        npy("-" * 3000 + "1"),
        npy("x", version=b"\x09\x00"),
        npy(" " * 20_000 + described("(1,)"), bytes(8), b"\x02\x00"),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        b"\x93NUM",
        b"cbuiltins\neval\n.",
        b"",
    ],
)
def test_file_without_valid_array_is_refused_within_8_mib(tmp_path, content):
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(BadInputError):
            read_array(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archive_that_expands_to_far_more_is_refused(tmp_path, method):
    """24 MiB of zeros, compressed to less than 30 KB."""
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("zeros.npy", npy(described("(3145728,)"), bytes(24 << 20)))
    tracemalloc.start()
    try:
        with (
            opened_archive(path) as archive,
            pytest.raises(BadInputError, match=r"decompresses to 25,|numpy does not use"),
        ):
            archive.read("zeros")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_archive_members_share_one_limit_of_expanded_bytes(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", **{f"a{at}": np.zeros((1 << 20) - 99) for at in range(3)})
    with opened_archive(tmp_path / "x.npz") as archive:
        assert archive.read("a0").nbytes == (8 << 20) - 792
        with pytest.raises(BadInputError, match="array a2: decompresses to"):
            [archive.read(name) for name in ("a1", "a2")]


def test_archive_member_with_wrong_checksum_is_refused(tmp_path):
    file = io.BytesIO()
    np.savez(file, x=np.arange(100))
    data = bytearray(file.getvalue())
    data[data.index(np.int64(77).tobytes())] ^= 1
    (tmp_path / "x.npz").write_bytes(data)
    with opened_archive(tmp_path / "x.npz") as archive, pytest.raises(BadInputError, match="array x: is damaged"):
        archive.read("x")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["i8", "f4"])
def test_counts_are_read_in_either_byte_order(order, kind, tmp_path):
    np.save(tmp_path / "counts.npy", np.arange(5, dtype=order + kind))
    counts = _counts([f"words={tmp_path / 'counts.npy'}"], "--counts", None)
    assert counts["words"].tolist() == [0, 1, 2, 3, 4]
