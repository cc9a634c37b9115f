"""The manifest of a bundle: a changed byte of any file is found and named, and no manifest leads out of the folder."""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.bundle.manifest import BundleManifest
from edge_embed.bundle.opened import open_bundle
from edge_embed.errors import BadInputError

TARGETS = ["onnx", "tflite"]
KEYS = "format_version name made_by target model requires operators instruction_sets metadata files".split()
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.just([]), st.just({}), st.just([1]))


@pytest.fixture(params=TARGETS)
def bundle(request: pytest.FixtureRequest, bundles: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundles[request.param], tmp_path / "bundle"))


def rewritten(folder: Path, **changed: Any) -> Path:
    path = folder / "bundle.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "bundle.json")


def test_changed_file_is_named(bundle: Path) -> None:
    for name in names_in(bundle):
        path = bundle / name
        content = path.read_bytes()
        for at in (0, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            with pytest.raises(BadInputError, match=f"{name}: got SHA-256"):
                open_bundle(bundle)
        path.write_bytes(content[:-1])
        with pytest.raises(BadInputError, match=f"{name}: got .* bytes, expected"):
            open_bundle(bundle)
        path.unlink()
        with pytest.raises(BadInputError, match=f"{name}: no such file"):
            open_bundle(bundle)
        path.write_bytes(content)
    open_bundle(bundle)


def test_manifest_is_read_as_it_was_written(bundle: Path, tmp_path: Path) -> None:
    manifest = BundleManifest.read(bundle)
    manifest.write(tmp_path)
    assert BundleManifest.read(tmp_path) == manifest
    assert sorted(manifest.files) == names_in(bundle)


def test_keys_of_later_releases_are_skipped(bundle: Path) -> None:
    open_bundle(rewritten(bundle, signature="x"))


@pytest.mark.parametrize(
    "name",
    ["../model.onnx", "/etc/passwd", "a/b", "..", ".hidden", "", "a\\b", "a\0b", "C:model", "x" * 300, "bundle.json"],
)
def test_names_outside_of_the_folder_are_refused(bundle: Path, name: str) -> None:
    files = json.loads((bundle / "bundle.json").read_text())["files"]
    with pytest.raises(BadInputError, match="plain name"):
        open_bundle(rewritten(bundle, files={**files, name: {"bytes": 1, "sha256": "0" * 64}}))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format_version": 2}, "format_version: got 2, expected 1"),
        ({"format_version": True}, "format_version: got True"),
        ({"target": "coreml"}, "target: got 'coreml'"),
        ({"model": "other.onnx"}, "files: got no 'other.onnx'"),
        ({"model": "../model.onnx"}, "files: got no"),
        ({"files": {}}, "files: got no"),
        ({"files": {"model.onnx": {"bytes": -1, "sha256": "0" * 64}}}, "got -1 bytes"),
        ({"files": {"model.onnx": {"bytes": 1, "sha256": "0" * 63}}}, "64 hex digits"),
        ({"requires": {"onnxruntime": "new"}}, "expected a version"),
        ({"requires": {"onnxruntime": "9" * 5000}}, "expected a version"),
        ({"requires": {"onnxruntime": "1.\u0663"}}, "expected a version"),
        ({"requires": {"onnxruntime": 1.18}}, "onnxruntime: got 1.18, expected a text"),
        ({"operators": {"ai.onnx": [1]}}, "operators: expected lists of names"),
    ],
)
def test_wrong_manifest_is_refused(bundle: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError) as error:
        open_bundle(rewritten(bundle, **changed))
    assert message in str(error.value)
    assert "bundle.json" in str(error.value)


@given(key=st.sampled_from(KEYS), value=LEAVES)
def test_manifest_with_any_value_is_read_or_refused(
    bundles: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, key: str, value: Any
) -> None:
    folder = tmp_path_factory.mktemp("any")
    shutil.copyfile(bundles["onnx"] / "bundle.json", folder / "bundle.json")
    with suppress(BadInputError):  # and no other error
        BundleManifest.read(rewritten(folder, **{key: value}))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 9999])
def test_damaged_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bundle.json").write_bytes(content)
    with pytest.raises(BadInputError, match=r"bundle\.json"):
        open_bundle(tmp_path)


def test_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInputError, match="no such file: expected the manifest of a bundle"):
        open_bundle(tmp_path)
    with pytest.raises(BadInputError, match="absent: no such folder"):
        open_bundle(tmp_path / "absent")
    with pytest.raises(BadInputError, match="is a file, expected the folder"):
        open_bundle(tmp_path / "file")


@pytest.mark.parametrize(
    ("got", "needed", "is_old"),
    [
        ("1.17.3", "1.18", True),
        ("1.18", "1.18.0", False),
        ("1.18.1+cpu", "1.18.1", False),
        ("1.9", "1.18", True),
        ("2", "1.18", False),
        ("0.1.0rc1", "0.1.0", False),
        ("unknown", "1.0", True),
    ],
)
def test_versions_are_compared_by_their_numbers(
    bundles: dict[str, Path], got: str, needed: str, is_old: bool, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(bundles["onnx"], tmp_path / "bundle"))
    manifest = BundleManifest.read(rewritten(folder, requires={"onnxruntime": needed}))
    lacking = manifest.lacking({"onnxruntime": got})
    assert bool(lacking) == is_old
    assert all(got in text and needed in text for text in lacking.values())
    assert manifest.lacking({}) == {}
