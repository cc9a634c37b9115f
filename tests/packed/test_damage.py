"""Systematic and random damage: every bit, every length, and random bytes raise ``BadInputError`` only."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.packed import load_tables

FILES = {
    method: (Path(__file__).parents[1] / "golden" / f"{method}_v1.safetensors").read_bytes()
    for method in ("dpq", "dpq_int8", "dpq_scaled", "tiered", "ant", "tt")
}
every_file = pytest.mark.parametrize("golden", FILES.values(), ids=FILES.keys())


def header_end(golden: bytes) -> int:
    return 8 + int.from_bytes(golden[:8], "little")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damage") / "damaged.safetensors"


def accepted(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    return loads(path)


def loads(path: Path) -> bool:
    try:
        load_tables(path)
    except BadInputError:
        return False
    return True


@every_file
def test_flipped_bit_is_noticed_anywhere(path: Path, golden: bytes) -> None:
    """All bits of one file are flipped, and two bits of each byte of the others, which have the same kinds of parts."""
    survivors = []
    path.write_bytes(golden)
    with path.open("r+b", buffering=0) as file:
        for position, byte in enumerate(golden):
            for bit in range(8) if golden is FILES["dpq"] else (position % 4, position % 4 + 4):
                os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), position)
                if loads(path):
                    survivors.append((position, bit))
            os.pwrite(file.fileno(), bytes([byte]), position)
    assert not survivors
    assert loads(path)  # every byte is restored


@every_file
def test_truncation_is_noticed_at_every_length(path: Path, golden: bytes) -> None:
    path.write_bytes(golden)
    survivors = []
    for length in reversed(range(len(golden))):
        os.truncate(path, length)
        if loads(path):
            survivors.append(length)
    assert not survivors


@every_file
@given(data=st.data())
def test_random_bytes_after_valid_header_are_refused(path: Path, golden: bytes, data: st.DataObject) -> None:
    end = header_end(golden)
    body = data.draw(st.binary(max_size=2 * (len(golden) - end)))
    assert accepted(path, golden[:end] + body) == (body == golden[end:])


@every_file
@given(data=st.data(), length=st.integers(0, 40), patch=st.binary(max_size=40))
def test_random_replacement_of_a_stretch_is_refused(
    path: Path, golden: bytes, data: st.DataObject, length: int, patch: bytes
) -> None:
    start = data.draw(st.integers(0, len(golden)))
    changed = golden[:start] + patch + golden[start + length :]
    assert accepted(path, changed) == (changed == golden)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in [(value, key), *places(inner)]]


def write_header(path: Path, golden: bytes, header: Any) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + golden[header_end(golden) :])


@every_file
@given(data=st.data(), junk=JSON)
def test_header_with_any_replaced_value_is_refused(path: Path, golden: bytes, data: st.DataObject, junk: Any) -> None:
    header = json.loads(golden[8 : header_end(golden)])
    container, key = data.draw(st.sampled_from(places(header)))
    unchanged = json.dumps(container[key]) == json.dumps(junk)
    container[key] = junk
    write_header(path, golden, header)
    assert loads(path) == unchanged


def padding_rows(entry: Any) -> list[Any]:
    """Return padding rows that an entry may declare without contradicting the tensors of the golden files."""
    rows = {"dpq": [1], "ant": [1, 2]}.get(entry["method"], range(entry["num_embeddings"]))
    return [None, *rows] if entry["padding_idx"] is not None or entry["method"] in ("tt", "tiered") else [None]


@every_file
@given(data=st.data(), junk=JSON)
def test_manifest_with_any_replaced_value_and_right_hash_is_refused(
    path: Path, golden: bytes, data: st.DataObject, junk: Any
) -> None:
    """The right hash leaves the detection to the checks of each field."""
    header = json.loads(golden[8 : header_end(golden)])
    manifest = json.loads(header["__metadata__"]["edge_embed"])
    container, key = data.draw(st.sampled_from(places(manifest["tables"])))
    harmless = json.dumps(container[key]) == json.dumps(junk)
    if key == "padding_idx":
        harmless = type(junk) in (int, type(None)) and junk in padding_rows(container)
    container[key] = junk
    compact: dict[str, Any] = {"sort_keys": True, "separators": (",", ":")}
    manifest["sha256"] = hashlib.sha256(json.dumps(manifest["tables"], **compact).encode()).hexdigest()
    header["__metadata__"]["edge_embed"] = json.dumps(manifest, **compact)
    write_header(path, golden, header)
    assert loads(path) == harmless
