"""Damage without a plan: every bit, every length, and random bytes. Only ``BadInputError`` may come out."""

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

GOLDEN = (Path(__file__).parents[1] / "golden" / "dpq_v1.safetensors").read_bytes()
HEADER_END = 8 + int.from_bytes(GOLDEN[:8], "little")


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


def test_every_flipped_bit_is_noticed(path: Path) -> None:
    survivors = []
    path.write_bytes(GOLDEN)
    with path.open("r+b", buffering=0) as file:
        for position, byte in enumerate(GOLDEN):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), position)
                if loads(path):
                    survivors.append((position, bit))
            os.pwrite(file.fileno(), bytes([byte]), position)
    assert not survivors
    assert loads(path)  # every byte is back


def test_every_truncation_is_noticed(path: Path) -> None:
    assert not [length for length in range(len(GOLDEN)) if accepted(path, GOLDEN[:length])]


@given(st.binary(max_size=2 * (len(GOLDEN) - HEADER_END)))
def test_any_bytes_after_a_valid_header(path: Path, body: bytes) -> None:
    assert accepted(path, GOLDEN[:HEADER_END] + body) == (body == GOLDEN[HEADER_END:])


@given(st.integers(0, len(GOLDEN)), st.integers(0, 40), st.binary(max_size=40))
def test_any_stretch_replaced(path: Path, start: int, length: int, patch: bytes) -> None:
    data = GOLDEN[:start] + patch + GOLDEN[start + length :]
    assert accepted(path, data) == (data == GOLDEN)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in [(value, key), *places(inner)]]


def write_header(path: Path, header: Any) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + GOLDEN[HEADER_END:])


@given(st.data(), JSON)
def test_any_value_in_the_header_replaced(path: Path, data: st.DataObject, junk: Any) -> None:
    header = json.loads(GOLDEN[8:HEADER_END])
    container, key = data.draw(st.sampled_from(places(header)))
    unchanged = json.dumps(container[key]) == json.dumps(junk)
    container[key] = junk
    write_header(path, header)
    assert loads(path) == unchanged


@given(st.data(), JSON)
def test_any_value_in_the_manifest_replaced_and_sealed_again(path: Path, data: st.DataObject, junk: Any) -> None:
    """With a right hash over it, each field has to be checked for what it is."""
    header = json.loads(GOLDEN[8:HEADER_END])
    manifest = json.loads(header["__metadata__"]["edge_embed"])
    container, key = data.draw(st.sampled_from(places(manifest["tables"])))
    harmless = json.dumps(container[key]) == json.dumps(junk) or (key == "padding_idx" and junk is None)
    container[key] = junk
    compact: dict[str, Any] = {"sort_keys": True, "separators": (",", ":")}
    manifest["sha256"] = hashlib.sha256(json.dumps(manifest["tables"], **compact).encode()).hexdigest()
    header["__metadata__"]["edge_embed"] = json.dumps(manifest, **compact)
    write_header(path, header)
    assert loads(path) == harmless
