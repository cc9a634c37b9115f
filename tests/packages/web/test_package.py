"""Contents of the package for the web: sizes, evidence, and the same bytes from two builds."""

import json
import subprocess
import tarfile

import pytest

import edge_embed
from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.packages.builds import install_tree, make_tree
from edge_embed.packages.platforms import PLATFORMS
from edge_embed.packages.toolchain import find_toolchain
from edge_embed.packages.wasm import read_module
from edge_embed.packages.web import check_module, copy_sources, npm_version

HEADER = b"\0asm\1\0\0\0"
ONE_IMPORT = HEADER + b"\x02\x07\x01\x01a\x01b\x00\x00"
MODULES = ("edge-embed-web/kernels-scalar.wasm", "edge-embed-web/kernels-simd.wasm")


@pytest.mark.parametrize(
    ("version", "expected"), [("1.2.0", "1.2.0"), ("1.2.0rc1", "1.2.0-rc1"), ("1.2.0.dev3", "1.2.0-dev3")]
)
def test_npm_version_of_python_version(version, expected):
    assert npm_version(version) == expected


@pytest.mark.parametrize("data", [b"MZ", HEADER[:6], HEADER + b"\x07\xff\xff\x03"])
def test_read_module_of_damaged_file_is_refused(data):
    with pytest.raises(BadInputError):
        read_module(data)


@pytest.mark.parametrize(("data", "fault"), [(ONE_IMPORT, "imports 1 names"), (HEADER + b"\0" * 80_000, "80008 bytes")])
def test_check_module_names_the_fault(tmp_path, data, fault):
    (tmp_path / "k.wasm").write_bytes(data)
    with pytest.raises(EdgeEmbedError, match=fault):
        check_module(tmp_path / "k.wasm", PLATFORMS["web"].builds[0])


def test_sources_of_package_have_its_version_and_export_what_they_name(tmp_path):
    copy_sources(tmp_path / "web")
    package = json.loads((tmp_path / "web" / "package.json").read_text())
    assert package["version"] == npm_version(edge_embed.__version__)
    named = [entry for entry in package["exports"].values() if isinstance(entry, str)]
    named += list(package["exports"]["."].values())
    made = {"./kernels-simd.wasm", "./kernels-scalar.wasm"}
    assert all((tmp_path / "web" / name).is_file() for name in set(named) - made)


@pytest.mark.slow
def test_modules_ran_and_have_at_most_80_kb(web_report):
    modules = {file.path: file for file in web_report.libraries}
    assert sorted(modules) == list(MODULES)
    assert all(file.proof == "executed" and file.bytes <= 80_000 for file in modules.values())
    print({path: file.bytes for path, file in modules.items()})


@pytest.mark.slow
def test_archive_has_the_files_that_npm_would_pack(archive, project):
    with tarfile.open(archive) as content:
        names = {member.name.removeprefix("package/") for member in content.getmembers()}
    folder = archive.parent / "edge-embed-web"
    done = subprocess.run(
        ["npm", "pack", "--dry-run", "--json"], cwd=folder, capture_output=True, text=True, check=True
    )
    (packed,) = json.loads(done.stdout)
    assert names == {file["path"] for file in packed["files"]}
    assert packed["filename"] == archive.name


@pytest.mark.slow
def test_module_built_twice_has_same_bytes(packaged, tmp_path):
    packaged("web")
    build = PLATFORMS["web"].builds[0]
    toolchain = find_toolchain(PLATFORMS["web"], build)
    make_tree(build, toolchain, tmp_path / "another" / "work", tmp_path / "tree", 600)
    path = "lib/edge_embed_kernels.wasm"
    assert (tmp_path / "tree" / path).read_bytes() == (install_tree(build, toolchain, 600) / path).read_bytes()
