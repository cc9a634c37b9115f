"""Inspection of wheels: one that meets all requirements, and one fault of each kind."""

import base64
import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.packages.binaries import Binary
from release import contents
from release.contents import check_wheel
from release.tags import TARGETS, find_targets

TARGET = TARGETS["linux-arm64"]
INFO = "edge_embed-0.1.0.dist-info"
ENTRIES = frozenset({"RegisterCustomOps", "tflite_plugin_create_delegate", "ee_training_nearest"})
SOUND = Binary("ELF", "arm64", ENTRIES, frozenset(), ("libc.so.6",), "2.17", alignment=65536)
FORBIDDEN = Path("/home/builder")


class Made:
    """A wheel that a test changes before it is written."""

    def __init__(self) -> None:
        self.files = {f"edge_embed/runtime/{name}": b"library" for name in TARGET.files}
        self.files["edge_embed/runtime/library.py"] = b"code"
        self.wheel = f"Root-Is-Purelib: false\nTag: {TARGET.tag}\n"
        self.mode = 0o100755
        self.hashes: dict[str, str] = {}

    def write(self, folder: Path) -> Path:
        path = folder / f"edge_embed-0.1.0-{TARGET.tag}.whl"
        files = self.files | {f"{INFO}/WHEEL": self.wheel.encode()}
        digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()) for name, data in files.items()}
        lines = {name: f"sha256={digest.rstrip(b'=').decode()}" for name, digest in digests.items()} | self.hashes
        record = "".join(f"{name},{digest},1\n" for name, digest in lines.items() if digest != "left out")
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in (files | {f"{INFO}/RECORD": f"{record}{INFO}/RECORD,,\n".encode()}).items():
                entry = zipfile.ZipInfo(name)
                entry.external_attr = self.mode << 16
                archive.writestr(entry, data)
        return path


@pytest.fixture
def check(monkeypatch, tmp_path):
    """Return a function that inspects a wheel with made-up libraries."""

    def inspect(made: Made, binary: Binary = SOUND) -> list[str]:
        monkeypatch.setattr(contents, "_read", lambda name, data: binary)
        return check_wheel(made.write(tmp_path), TARGET, [FORBIDDEN])

    return inspect


def test_sound_wheel_returns_facts_of_its_libraries(check):
    facts = check(Made())
    assert len(facts) == 6
    assert "libedge_embed_ops.so: 7 bytes, ELF arm64, oldest system 2.17" in facts


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            {"wheel": "Root-Is-Purelib: false\nTag: py3-none-any\n"},
            "got the tags py3-none-any, expected py3-none-manyl",
        ),
        ({"wheel": f"Root-Is-Purelib: true\nTag: {TARGET.tag}\n"}, "is marked as pure Python"),
        ({"mode": 0o100644}, "edge_embed_runner: is not executable"),
        ({"hashes": {"edge_embed/runtime/library.py": "sha256=x"}}, "RECORD has another hash of .*library.py"),
        ({"hashes": {"edge_embed/runtime/library.py": "left out"}}, "RECORD and the archive differ in .*library.py"),
        ({"files": {}}, "got the libraries , expected edge_embed_runner, libedge_embed_bench.so"),
        ({"files": {"edge_embed/runtime/libedge_embed_ops.so": bytes(FORBIDDEN)}}, "ops.so: names /home/builder"),
    ],
)
def test_fault_of_wheel_is_named(check, change, fault):
    made = Made()
    vars(made).update(change)
    with pytest.raises(EdgeEmbedError, match=f"{TARGET.tag}.whl: .*{fault}"):
        check(made)


@pytest.mark.parametrize(
    ("binary", "fault"),
    [
        (replace(SOUND, processor="x86-64"), "is ELF x86-64, expected ELF arm64"),
        (replace(SOUND, binary_format="Mach-O"), "is Mach-O arm64, expected ELF arm64"),
        (replace(SOUND, minimum="2.34"), "needs version 2.34 of the system, but the tag promises 2.28"),
        (replace(SOUND, needed=("libstdc++.so.6",)), r"needs libstdc\+\+.so.6"),
        (replace(SOUND, exports=frozenset()), "ops.so: does not export RegisterCustomOps"),
    ],
)
def test_fault_of_library_in_wheel_is_named(check, binary, fault):
    with pytest.raises(EdgeEmbedError, match=fault):
        check(Made(), binary)


@pytest.mark.parametrize(
    ("name", "hint"), [("linux_x64", "did you mean 'linux-x64'"), ("bsd", "expected one of linux-x64")]
)
def test_unknown_platform_is_refused_with_all_names(name, hint):
    with pytest.raises(BadInputError, match=hint):
        find_targets((name,))
