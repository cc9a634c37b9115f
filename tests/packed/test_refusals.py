"""Refusals by name: each test changes one part of the golden file and seals it with right hashes."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from edge_embed.errors import BadInputError
from edge_embed.packed import load_tables, read_manifest

GOLDEN = Path(__file__).parents[1] / "golden" / "dpq_v1.safetensors"


def words() -> dict[str, np.ndarray[Any, Any]]:
    return load_tables(GOLDEN)["words"].tensors()


def split(data: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def join(header: Any, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def with_manifest(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return the golden file with another manifest and right hashes: only the change itself is wrong."""
    header, body = split(GOLDEN.read_bytes())
    manifest = json.loads(header["__metadata__"]["edge_embed"])
    change(manifest)
    manifest["sha256"] = hashlib.sha256(canonical(manifest.get("tables")).encode()).hexdigest()
    header["__metadata__"]["edge_embed"] = canonical(manifest)
    return join(header, body)


def with_entry(**fields: Any) -> bytes:
    return with_manifest(lambda manifest: manifest["tables"]["words"].update(fields))


def with_attributes(**fields: Any) -> bytes:
    return with_manifest(lambda manifest: manifest["tables"]["words"]["attributes"].update(fields))


def with_tensor(name: str, **fields: Any) -> bytes:
    header, body = split(GOLDEN.read_bytes())
    header[name].update(fields)
    return join(header, body)


def with_array(name: str, array: np.ndarray[Any, Any]) -> bytes:
    """Return other content under a right hash, which only the checks of the method can notice."""
    header, body = split(GOLDEN.read_bytes())
    start, end = header[f"words/{name}"]["data_offsets"]
    assert end - start == array.nbytes
    manifest = json.loads(header["__metadata__"]["edge_embed"])
    manifest["tables"]["words"]["sha256"][name] = hashlib.sha256(array.tobytes()).hexdigest()
    manifest["sha256"] = hashlib.sha256(canonical(manifest["tables"]).encode()).hexdigest()
    header["__metadata__"]["edge_embed"] = canonical(manifest)
    return join(header, body[:start] + array.tobytes() + body[end:])


def with_metadata(text: str) -> bytes:
    header, body = split(GOLDEN.read_bytes())
    header["__metadata__"]["edge_embed"] = text
    return join(header, body)


def manifest_text() -> str:
    text = split(GOLDEN.read_bytes())[0]["__metadata__"]["edge_embed"]
    assert isinstance(text, str)
    return text


def codes_with(row: int, first: int, second: int) -> np.ndarray[Any, Any]:
    codes = words()["codes"]
    codes[row] = first, second
    return codes


def values_with(number: float) -> np.ndarray[Any, Any]:
    values = words()["values"]
    values[2, 4, 1] = number
    return values


def without_tensor() -> bytes:
    header, body = split(GOLDEN.read_bytes())
    del header["words/codes"]
    return join(header, body[:-8])


def extra_tensor() -> bytes:
    header, body = split(GOLDEN.read_bytes())
    header["words/more"] = {"dtype": "U8", "shape": [1], "data_offsets": [len(body), len(body) + 1]}
    return join(header, body + b"x")


BODY = split(GOLDEN.read_bytes())[1]
NO_SAFETENSORS = "is damaged or not a safetensors file: .Error while deserializing header"
DAMAGE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", NO_SAFETENSORS),
    "short": (b"\x08\0\0", NO_SAFETENSORS),
    "zip, as torch writes": (b"PK\x03\x04" + bytes(100), NO_SAFETENSORS),
    "header too long": ((100_000_001).to_bytes(8, "little") + bytes(100_000_001), NO_SAFETENSORS),
    "no json": (join(b"{nonsense", b""), NO_SAFETENSORS),
    "json list": (join(b"[]", b""), NO_SAFETENSORS),
    "no utf-8": (join(b'{"\xff":1}', b""), NO_SAFETENSORS),
    "deep json": (join(b'{"a":' + b"[" * 100_000, b""), NO_SAFETENSORS),
    "huge number": (join(b'{"a":1' + b"0" * 5000 + b"}", b""), NO_SAFETENSORS),
    "metadata is a list": (join({"__metadata__": []}, b""), NO_SAFETENSORS),
    "metadata is no text": (join({"__metadata__": {"edge_embed": 1}}, b""), NO_SAFETENSORS),
    "foreign": (safetensors.numpy.save({"w": np.zeros(3)}), "has no 'edge_embed' metadata"),
    "more metadata": (safetensors.numpy.save({}, {"edge_embed": "{}", "format": "pt"}), "expected only"),
    "byte missing": (GOLDEN.read_bytes()[:-1], NO_SAFETENSORS),
    "byte added": (GOLDEN.read_bytes() + b"x", NO_SAFETENSORS),
    "tensor missing": (without_tensor(), r"missing \['words/codes'\]"),
    "tensor added": (extra_tensor(), r"not in the manifest: \['words/more'\]"),
    "tensor dtype": (
        with_tensor("words/codes", dtype="I8"),
        r"tensor 'words/codes': got I8 \[4, 2\], expected U8",
    ),
    "tensor shape": (
        with_tensor("words/codes", shape=[2, 4]),
        r"tensor 'words/codes': .*\[2, 4\].*expected U8 \[4, 2\]",
    ),
    "tensor shape of floats": (with_tensor("words/codes", shape=[4.0, 2]), NO_SAFETENSORS),
    "tensor shape negative": (with_tensor("words/codes", shape=[-4, -2]), NO_SAFETENSORS),
    "tensors overlap": (with_tensor("words/codes", data_offsets=[130, 138]), NO_SAFETENSORS),
    "tensor backwards": (with_tensor("words/codes", data_offsets=[131, 130]), NO_SAFETENSORS),
    "gap": (join(split(with_tensor("words/codes", data_offsets=[132, 140]))[0], BODY + b"x"), NO_SAFETENSORS),
    "tensor bytes": (
        join(split(with_tensor("words/codes", data_offsets=[131, 141]))[0], BODY + b"xx"),
        NO_SAFETENSORS,
    ),
    "terminal codes": (
        with_tensor("words/codes", data_offsets=[0, 8]).replace(b"words/codes", b"\\u001b[31mm"),
        NO_SAFETENSORS,
    ),
    "manifest no json": (with_metadata("{"), "not valid JSON"),
    "manifest is a list": (with_metadata("[]"), "format_version: got None"),
    "manifest deep": (with_metadata('{"tables":' * 100_000), "not valid JSON"),
    "manifest huge number": (with_metadata('{"tables":1' + "0" * 5000 + "}"), "not valid JSON"),
    "manifest not a number": (with_metadata('{"tables":NaN}'), "not valid JSON"),
    "manifest key twice": (
        with_metadata(manifest_text().replace('"padding_idx":1', '"padding_idx":1,"padding_idx":1')),
        "canonical",
    ),
    "manifest spaces": (with_metadata(manifest_text() + " "), "not canonical"),
    "manifest order": (
        with_metadata(json.dumps(dict(reversed(json.loads(manifest_text()).items())))),
        "canonical",
    ),
    "manifest hash": (
        with_metadata(manifest_text().replace('"padding_idx":1', '"padding_idx":2')),
        "manifest: its hash",
    ),
    "manifest key": (with_manifest(lambda m: m.update(more=1)), r"unknown keys \['more'\]"),
    "version 2": (
        with_manifest(lambda m: m.update(format_version=2)),
        "format_version: got 2, expected 1; another",
    ),
    "version true": (with_manifest(lambda m: m.update(format_version=True)), "format_version: got True"),
    "no tables": (with_manifest(lambda m: m.update(tables={})), "at least one table"),
    "tables a list": (with_manifest(lambda m: m.update(tables=[])), "at least one table"),
    "table name": (
        with_manifest(lambda m: m["tables"].update({"a/b": m["tables"].pop("words")})),
        "table name: got 'a/b'",
    ),
    "entry no object": (with_manifest(lambda m: m["tables"].update(words=1)), "table 'words': entry: got 1"),
    "entry key": (with_entry(scale=None), r"table 'words': entry: .*unknown keys \['scale'\]"),
    "method": (
        with_entry(method="xyz"),
        r"table 'words': method: got 'xyz', expected one of \['ant', 'dpq', 'tiered', 'tt'\]",
    ),
    "method list": (with_entry(method=[]), r"table 'words': method: got \[\]"),
    "value type": (with_entry(value_type="float64"), "value_type: got 'float64', expected float32, float16 or int8"),
    "value type a list": (with_entry(value_type=["float32"]), "value_type: got .'float32'., expected float32"),
    "value type another": (with_entry(value_type="float16"), "tensor 'words/values': got F32 .*, expected F16"),
    "row scale": (
        with_entry(row_scale="float16"),
        "row_scale: got 'float16', expected None; other values are reserved",
    ),
    "group widths": (
        with_entry(group_widths=[1, 5]),
        r"group_widths: got \[1, 5\], expected None; other values are reserved",
    ),
    "attributes": (with_entry(attributes=[]), "table 'words': attributes"),
    "attribute more": (with_attributes(more=1), "table 'words': attributes: got .*'more'"),
    "K = 1": (with_attributes(num_codes=1), "table 'words': num_codes: got 1, expected 2 to 65536"),
    "K too large": (with_attributes(num_codes=65537), "num_codes: got 65537"),
    "K a text": (with_attributes(num_codes="5"), "num_codes: got '5'"),
    "K another": (with_attributes(num_codes=6), r"tensor 'words/values': .*expected F32 \[3, 6, 2\]"),
    "bits": (with_attributes(bits=4), "bits: got 4, expected 3"),
    "D not dividing d": (
        with_attributes(num_groups=4),
        r"num_groups: got 4, expected a divisor of embedding_dim \(6\)",
    ),
    "shared": (with_attributes(share_subspaces=True), "tensor 'words/values'"),
    "shared a number": (with_attributes(share_subspaces=0), "shared: got 0"),
    "n = 0": (with_entry(num_embeddings=0), "num_embeddings: got 0"),
    "n true": (with_entry(num_embeddings=True), "num_embeddings: got True"),
    "n another": (with_entry(num_embeddings=5), r"tensor 'words/codes': .*expected U8 \[5, 2\]"),
    "n overflows": (with_entry(num_embeddings=2**62), "expected at most 9223372036854775807"),
    "d huge": (with_entry(embedding_dim=3 * 10**40), "embedding_dim: got a number of 135 bits"),
    "n and d huge": (
        with_entry(embedding_dim=3 * 10**4000, num_embeddings=10**4000),
        "num_embeddings: got a number of 13288 bits",
    ),
    "padding negative": (with_entry(padding_idx=-1), "padding_idx: got -1"),
    "padding too large": (with_entry(padding_idx=4), "padding_idx: got 4, expected none or 0 to 3"),
    "padding another": (with_entry(padding_idx=2), r"table 'words': codes: row 2 \(padding\), group 0"),
    "hash missing": (with_entry(sha256={"codes": "0" * 64}), r"missing keys \['values'\]"),
    "hash no hex": (with_entry(sha256={"codes": "0" * 64, "values": "Z" * 64}), "sha256: values"),
    "hash another": (
        with_entry(sha256={"codes": "0" * 64, "values": "0" * 64}),
        "tensor 'words/codes': its hash is 159f",
    ),
    "code too large": (
        with_array("codes", codes_with(2, 0b00_000_101, 0)),
        "table 'words': codes: row 2, group 0: got code 5",
    ),
    "spare bit": (with_array("codes", codes_with(3, 0, 2)), "table 'words': codes: row 3: got spare bits"),
    "padding codes": (with_array("codes", codes_with(1, 0, 1)), r"codes: row 1 \(padding\), group 2"),
    "nan": (
        with_array("values", values_with(np.nan)),
        "table 'words': values: group 2, code 4, column 1: got nan",
    ),
    "infinity": (with_array("values", values_with(np.inf)), "values: group 2, code 4, column 1: got inf"),
}


NOT_IN_THE_HEADER = {"padding another", "hash another", "code too large", "spare bit", "padding codes"}
NOT_IN_THE_HEADER |= {"nan", "infinity"}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_refused_by_name(tmp_path: Path, case: str) -> None:
    data, message = DAMAGE[case]
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(data)
    with pytest.raises(BadInputError, match=message) as caught:
        load_tables(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).isprintable()
    if case in NOT_IN_THE_HEADER:
        assert read_manifest(path).tables
    else:
        with pytest.raises(BadInputError, match=message):
            read_manifest(path)


def test_resealed_file_without_change_is_read(tmp_path: Path) -> None:
    """Otherwise the tests above could fail for the wrong reason."""
    for data in [
        with_entry(),
        with_tensor("words/codes"),
        with_array("codes", words()["codes"]),
        with_metadata(manifest_text()),
    ]:
        (tmp_path / "t").write_bytes(data)
        assert load_tables(tmp_path / "t").keys() == {"words", "tags.shared"}
