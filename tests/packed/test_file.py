"""The packed file: exact bytes, the documented example, round trips, other readers and writers."""

import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from edge_embed import packed as packed_package
from edge_embed.errors import BadInputError
from edge_embed.packed import PackedDPQ, load_tables, read_manifest, save_tables
from edge_embed.packed.bits import unpack

GOLDEN = Path(__file__).parents[1] / "golden" / "dpq_v1.safetensors"
FORMAT_PAGE = (Path(packed_package.__file__).parent / "FORMAT.md").read_text("utf-8")


def words() -> PackedDPQ:
    codes = np.array([[4, 1, 3], [0, 0, 0], [2, 4, 0], [1, 3, 4]])
    count = np.array([[10 * j + k for k in range(5)] for j in range(3)])
    return PackedDPQ.from_codes(codes, np.stack([1 + count, count / -4 + 0.0], -1).astype(np.float32), 1)


def tags() -> PackedDPQ:
    return PackedDPQ.from_codes(np.array([[0, 1], [1, 1], [1, 0]]), np.array([[[0.5], [-2]]], np.float32))


def test_golden_bytes(tmp_path: Path) -> None:
    """What we write today is what v1 readers out there expect, to the byte, in any order of tables."""
    save_tables(tmp_path / "a", {"words": words(), "tags.shared": tags()})
    save_tables(tmp_path / "b", {"tags.shared": tags(), "words": words()})
    assert (tmp_path / "a").read_bytes() == GOLDEN.read_bytes() == (tmp_path / "b").read_bytes()


def test_the_page_shows_the_golden_file() -> None:
    assert hashlib.sha256(GOLDEN.read_bytes()).hexdigest() in FORMAT_PAGE
    table = load_tables(GOLDEN)["words"]
    rows = re.findall(r"^\| (\d) \| (\d \d \d) \| ([01 ]+) \| ([0-9a-f ]+) \|$", FORMAT_PAGE, re.MULTILINE)
    assert len(rows) == table.num_embeddings == 4
    stored = GOLDEN.read_bytes()[-8:]  # the last tensor of the file
    for number, codes, bits, hexadecimal in rows:
        data = bytes.fromhex(hexadecimal)
        assert data == stored[2 * int(number) :][:2] == table.tensors()["codes"][int(number)].tobytes()
        assert int(bits.replace(" ", ""), 2) == int.from_bytes(data, "little")
        assert unpack(np.frombuffer(data, np.uint8), 3, 3).tolist() == [int(code) for code in codes.split()]
    assert table.rows(3).tolist() == [2, -0.25, 14, -3.25, 25, -6]  # as the page says in words
    assert table.rows(1).tobytes() == bytes(24)


def test_round_trip(tmp_path: Path) -> None:
    save_tables(tmp_path / "t.safetensors", {"encoder.words": words(), "x": tags()})
    loaded = load_tables(str(tmp_path / "t.safetensors"))
    assert list(loaded) == ["encoder.words", "x"]
    for name, original in {"encoder.words": words(), "x": tags()}.items():
        assert isinstance(loaded[name], PackedDPQ)
        assert loaded[name].attributes() == original.attributes()
        assert loaded[name].padding_idx == original.padding_idx
        ids = np.arange(original.num_embeddings)
        assert loaded[name].rows(ids).tobytes() == original.rows(ids).tobytes()


def test_views_and_fortran_order_are_stored_the_same(tmp_path: Path) -> None:
    table = words()
    codes = np.repeat(table.codes, 2, axis=0)[::2]
    save_tables(tmp_path / "a", {"words": table})
    save_tables(tmp_path / "b", {"words": PackedDPQ(codes, np.asfortranarray(table.values), 3, 1)})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_safetensors_library_reads_our_files() -> None:
    tensors = safetensors.numpy.load_file(GOLDEN)
    assert tensors.keys() == {"words/codes", "words/values", "tags.shared/codes", "tags.shared/values"}
    np.testing.assert_array_equal(tensors["words/codes"], words().codes)
    np.testing.assert_array_equal(tensors["words/values"], words().values)


def test_we_read_what_the_safetensors_library_writes(tmp_path: Path) -> None:
    with safetensors.safe_open(GOLDEN, "np") as golden:
        metadata = golden.metadata()
    tensors = dict(reversed(safetensors.numpy.load_file(GOLDEN).items()))
    safetensors.numpy.save_file(tensors, tmp_path / "t", metadata=metadata)
    np.testing.assert_array_equal(load_tables(tmp_path / "t")["words"].rows(3), words().rows(3))


def test_manifest_without_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_embed.packed.file.read_tensor", None)  # it is not needed
    manifest = read_manifest(GOLDEN)
    assert manifest.file_bytes == GOLDEN.stat().st_size
    assert list(manifest.tables) == ["tags.shared", "words"]
    entry, table = manifest.tables["words"], words()
    assert (entry.method, entry.padding_idx, entry.shape) == ("dpq", 1, table.shape)
    assert entry.shape.compression_ratio == table.compression_ratio
    assert entry.shape.nbytes == table.nbytes
    assert entry.sha256["codes"] == hashlib.sha256(table.codes.tobytes()).hexdigest()


def test_an_existing_file_is_kept_without_force(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(b"mine")
    with pytest.raises(BadInputError, match="--force"):
        save_tables(path, {"words": words()})
    assert path.read_bytes() == b"mine"
    save_tables(path, {"words": words()}, force=True)
    assert load_tables(path).keys() == {"words"}


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "\x1b[31m", "\ud800"])
def test_names_that_cannot_be_stored(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError, match="table name"):
        save_tables(tmp_path / "t", {name: words()})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["model.embed.0", "слова", "a b", "__metadata__"])
def test_names_that_can(tmp_path: Path, name: str) -> None:
    save_tables(tmp_path / "t", {name: words()})
    assert list(load_tables(tmp_path / "t")) == [name]


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    table = words()
    table.codes[2, 0] = 0b00_000_101
    with pytest.raises(BadInputError, match="table 'words': codes: row 2, group 0: got code 5"):
        save_tables(tmp_path / "t", {"words": table})
    with pytest.raises(BadInputError, match="no tables"):
        save_tables(tmp_path / "t", {})
    assert not list(tmp_path.iterdir())


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in [
        (tmp_path / "none", "No such file"),
        (tmp_path, "no regular"),
        (tmp_path / "pipe", "no regular"),
    ]:
        with pytest.raises(BadInputError, match=message):
            load_tables(path)
        with pytest.raises(BadInputError, match=message):
            read_manifest(path)
