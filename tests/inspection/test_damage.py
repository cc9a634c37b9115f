"""Truncated and bit-flipped files: `inspect` refuses them with its own error or reports a difference."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import inspect_file
from edge_embed.inspection.report import FileReport
from edge_embed.packed import load_tables

NAMES = ["model.pt", "module.pt", "old.pt", "model.onnx", "external.onnx", "tables.safetensors"]


def inspected(path: Path, content: bytes) -> FileReport | None:
    """Return the report, or None if the file is refused; every report must convert to JSON."""
    path.write_bytes(content)
    try:
        report = inspect_file(path, verify=True)
    except BadInputError:
        return None
    json.dumps(report.to_json())
    return report


@pytest.mark.parametrize("name", NAMES)
def test_truncated_file_is_refused_or_reported(files, name):
    content = (files / name).read_bytes()
    lengths = {*range(40), *np.linspace(0, len(content) - 1, 200, dtype=int).tolist(), len(content) - 1}
    for length in sorted(lengths):
        report = inspected(files / name, content[:length])
        if name == "old.pt":  # its tensors follow the pickles without a length, and are not read
            continue
        assert report is None or report.exit_code == 3 or report.warnings, length


def test_onnx_file_without_last_fields_is_refused_or_reported(files):
    """Protobuf accepts a file that was truncated between two fields."""
    model = onnx.load(files / "model.onnx")
    whole = model.SerializeToString()
    names = [field.name for field, _ in model.ListFields()]
    for kept in range(len(names)):
        shorter = onnx.ModelProto()
        shorter.CopyFrom(model)
        for name in names[kept:]:
            shorter.ClearField(name)
        report = inspected(files / "model.onnx", shorter.SerializeToString())
        assert report is None or report.exit_code == 3 or report.warnings, names[:kept]
    report = inspected(files / "model.onnx", whole)
    assert report is not None
    assert (report.exit_code, report.warnings) == (0, [])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_bit_flip_raises_no_other_error(files, name):
    content = (files / name).read_bytes()
    random = np.random.default_rng(1)
    for place in random.choice(len(content), min(len(content), 250), replace=False):
        damaged = bytearray(content)
        damaged[place] ^= 1 << random.integers(8)
        inspected(files / name, bytes(damaged))


@pytest.mark.parametrize("name", ["model.onnx", "tables.safetensors"])
def test_bit_flips_in_manifest_and_tables_are_all_found(files, name):
    content = (files / name).read_bytes()
    properties = {item.key: item.value for item in onnx.load(files / "model.onnx").metadata_props}
    manifest = properties["edge_embed.tables"].encode()
    if name == "tables.safetensors":
        manifest = manifest.replace(b'"', b'\\"')  # the manifest is a string in a JSON header there
    begin = content.index(manifest)
    places = list(range(begin, begin + len(manifest), 5))
    for table in load_tables(files / "tables.safetensors").values():
        for array in table.tensors().values():
            begin = content.index(array.tobytes())
            places += [begin, begin + 77, begin + array.nbytes - 1]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        report = inspected(files / name, bytes(damaged))
        assert report is None or report.exit_code == 3, place


@pytest.mark.parametrize("start", [b"\x08\x0a", b"PK\x03\x04", b"\x80\x02", b"\x80\x04\x95", bytes(7) + b"\0{"])
def test_noise_after_known_magic_bytes_is_refused(tmp_path, start):
    random = np.random.default_rng(2)
    for length in (0, 1, 5, 50, 500, 5000):
        for suffix in (".bin", ".onnx", ".pt", ".safetensors"):
            assert inspected(tmp_path / f"noise{suffix}", start + random.bytes(length)) is None
