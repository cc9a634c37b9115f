"""The packed file: exact bytes, the documented example, round trips, other readers and writers."""

import hashlib
import json
import os
import re
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from edge_embed import packed as packed_package
from edge_embed.errors import BadInputError, OutputError
from edge_embed.packed import Manifest, PackedDPQ, load_tables, read_manifest, save_tables
from edge_embed.packed.bits import unpack
from edge_embed.packed.file import tensor_hashes
from edge_embed.packed.manifest import parse_manifest

GOLDEN = Path(__file__).parents[1] / "golden" / "dpq_v1.safetensors"
FORMAT_PAGE = (Path(packed_package.__file__).parent / "FORMAT.md").read_text("utf-8")


def words() -> PackedDPQ:
    codes = np.array([[4, 1, 3], [0, 0, 0], [2, 4, 0], [1, 3, 4]])
    count = np.array([[10 * j + k for k in range(5)] for j in range(3)])
    return PackedDPQ.from_codes(codes, np.stack([1 + count, count / -4 + 0.0], -1).astype(np.float32), 1)


def tags() -> PackedDPQ:
    return PackedDPQ.from_codes(np.array([[0, 1], [1, 1], [1, 0]]), np.array([[[0.5], [-2]]], np.float32))


def test_saved_bytes_match_golden_file(tmp_path: Path) -> None:
    """The written bytes are those that existing v1 readers expect, for any order of tables."""
    save_tables(tmp_path / "a", {"words": words(), "tags.shared": tags()})
    save_tables(tmp_path / "b", {"tags.shared": tags(), "words": words()})
    assert (tmp_path / "a").read_bytes() == GOLDEN.read_bytes() == (tmp_path / "b").read_bytes()


def test_format_page_shows_golden_file() -> None:
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
    assert table.rows(3).tolist() == [2, -0.25, 14, -3.25, 25, -6]  # the page says the same
    assert table.rows(1).tobytes() == bytes(24)


def test_file_round_trip_keeps_tables(tmp_path: Path) -> None:
    save_tables(tmp_path / "t.safetensors", {"encoder.words": words(), "x": tags()})
    loaded = load_tables(str(tmp_path / "t.safetensors"))
    assert list(loaded) == ["encoder.words", "x"]
    for name, original in {"encoder.words": words(), "x": tags()}.items():
        assert isinstance(loaded[name], PackedDPQ)
        assert loaded[name].attributes() == original.attributes()
        assert loaded[name].padding_idx == original.padding_idx
        ids = np.arange(original.num_embeddings)
        assert loaded[name].rows(ids).tobytes() == original.rows(ids).tobytes()


def test_views_and_fortran_order_are_stored_equally(tmp_path: Path) -> None:
    table = words()
    codes = np.repeat(table.codes, 2, axis=0)[::2]
    save_tables(tmp_path / "a", {"words": table})
    save_tables(tmp_path / "b", {"words": PackedDPQ(codes, np.asfortranarray(table.values), 3, 1)})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_safetensors_library_reads_packed_files() -> None:
    tensors = safetensors.numpy.load_file(GOLDEN)
    assert tensors.keys() == {"words/codes", "words/values", "tags.shared/codes", "tags.shared/values"}
    np.testing.assert_array_equal(tensors["words/codes"], words().codes)
    np.testing.assert_array_equal(tensors["words/values"], words().values)


def test_packed_reader_reads_files_of_safetensors_library(tmp_path: Path) -> None:
    with safetensors.safe_open(GOLDEN, "np") as golden:
        metadata = golden.metadata()
    tensors = dict(reversed(safetensors.numpy.load_file(GOLDEN).items()))
    safetensors.numpy.save_file(tensors, tmp_path / "t", metadata=metadata)
    np.testing.assert_array_equal(load_tables(tmp_path / "t")["words"].rows(3), words().rows(3))


def test_manifest_lists_tables_and_hashes(tmp_path: Path) -> None:
    manifest = read_manifest(GOLDEN)
    assert manifest.file_bytes == GOLDEN.stat().st_size
    assert list(manifest.tables) == ["tags.shared", "words"]
    entry, table = manifest.tables["words"], words()
    assert (entry.method, entry.padding_idx, entry.shape) == ("dpq", 1, table.shape)
    assert entry.shape.compression_ratio == table.compression_ratio
    assert entry.shape.nbytes == table.nbytes
    assert entry.sha256["codes"] == hashlib.sha256(table.codes.tobytes()).hexdigest()


def test_manifest_of_a_terabyte_is_read_alone(tmp_path: Path) -> None:
    """The header holds it: no tensor is read, hashed or mapped. (The tensors are a hole in the file.)"""
    rows = 2**39
    length = int.from_bytes(GOLDEN.read_bytes()[:8], "little")
    header = json.loads(GOLDEN.read_bytes()[8 : 8 + length])
    manifest = json.loads(header["__metadata__"]["edge_embed"])
    manifest["tables"]["words"]["num_embeddings"] = rows
    compact: dict[str, Any] = {"sort_keys": True, "separators": (",", ":")}
    manifest["sha256"] = hashlib.sha256(json.dumps(manifest["tables"], **compact).encode()).hexdigest()
    header["__metadata__"]["edge_embed"] = json.dumps(manifest, **compact)
    header["words/codes"] = {"dtype": "U8", "shape": [rows, 2], "data_offsets": [131, 131 + 2 * rows]}
    text = json.dumps(header).encode()
    path = tmp_path / "t"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + 131 + 2 * rows)
    assert read_manifest(path).tables["words"].shape.num_embeddings == rows
    assert read_manifest(path).file_bytes > 2**40


def test_stored_hashes_match_stored_bytes(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(GOLDEN.read_bytes()[:-1] + b"\x02")
    expected = {(name, key): text for name, e in read_manifest(GOLDEN).tables.items() for key, text in e.sha256.items()}
    stored = {(name, key): text for name, key, text in tensor_hashes(tmp_path / "t")}
    assert expected.keys() == stored.keys()
    assert [key for key in expected if expected[key] != stored[key]] == [("words", "codes")]


def test_file_that_shrinks_during_reading_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapped file would end the process with a bus error."""
    path = tmp_path / "t"
    pages = np.zeros((1 << 20, 2), np.uint8)
    save_tables(path, {"t": PackedDPQ(pages, words().values, 3)})

    def parse_and_cut(text: str, file_bytes: int) -> Manifest:
        os.truncate(path, 2000)
        return parse_manifest(text, file_bytes)

    monkeypatch.setattr("edge_embed.packed.file.parse_manifest", parse_and_cut)
    with pytest.raises(BadInputError, match=f"{path}: "):
        load_tables(path)


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        save_tables(tmp_path / "t", {"words": words()})
    finally:
        os.umask(before)
    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o640


def test_file_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    """Errors of the safetensors library become output errors with a remedy, and nothing is left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(OutputError, match="File too large; choose an output path on a file system"):
            save_tables(tmp_path / "t", {"words": words()})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


def test_header_beyond_its_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"cannot be stored: .* header too large"):
        save_tables(tmp_path / "t", {"a" * 50_000_000: words()})
    assert not list(tmp_path.iterdir())


def test_existing_file_is_kept_without_force(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(b"mine")
    with pytest.raises(BadInputError, match="--force"):
        save_tables(path, {"words": words()})
    assert path.read_bytes() == b"mine"
    save_tables(path, {"words": words()}, force=True)
    assert load_tables(path).keys() == {"words"}


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "\x1b[31m", "\ud800"])
def test_names_that_cannot_be_stored_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError, match="table name"):
        save_tables(tmp_path / "t", {name: words()})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["model.embed.0", "слова", "a b", "__metadata__"])
def test_names_of_any_legal_characters_are_stored(tmp_path: Path, name: str) -> None:
    save_tables(tmp_path / "t", {name: words()})
    assert list(load_tables(tmp_path / "t")) == [name]


def test_tables_that_could_not_be_read_back_are_not_written(tmp_path: Path) -> None:
    table = words()
    table.codes[2, 0] = 0b00_000_101
    with pytest.raises(BadInputError, match="table 'words': codes: row 2, group 0: got code 5"):
        save_tables(tmp_path / "t", {"words": table})
    with pytest.raises(BadInputError, match="no tables"):
        save_tables(tmp_path / "t", {})
    assert not list(tmp_path.iterdir())


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in [
        (tmp_path / "none", "No such file"),
        (tmp_path, "not a regular"),
        (tmp_path / "pipe", "not a regular"),
    ]:
        with pytest.raises(BadInputError, match=message):
            load_tables(path)
        with pytest.raises(BadInputError, match=message):
            read_manifest(path)
