"""Compilers: the platform's own before zig, and the missing part where there is none."""

import pytest

import edge_embed
from edge_embed.errors import EdgeEmbedError
from edge_embed.packages import execution, package, toolchain
from edge_embed.packages.android import compile_helper, lay_out_android
from edge_embed.packages.platforms import PLATFORMS
from edge_embed.packages.toolchain import Toolchain, find_toolchain
from edge_embed.packages.work import Work
from edge_embed.targets.target import NotRunError


@pytest.fixture
def no_tools(monkeypatch, tmp_path):
    """Hide all programs, and zig of the Python package."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in toolchain.NDK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)


def make(name, folder):
    return package.make_package(name, folder, force=False, time_limit=1, progress=lambda *_: None)


def test_missing_compiler_is_named_and_nothing_is_written(no_tools, tmp_path):
    folder = tmp_path / "out"
    with pytest.raises(EdgeEmbedError, match=r"platform windows: nothing was made: .*zig is missing: .*\[package\]"):
        make("windows", folder)
    assert not folder.exists()


def test_android_takes_the_ndk_before_zig(monkeypatch, tmp_path):
    (tmp_path / "build" / "cmake").mkdir(parents=True)
    (tmp_path / "build" / "cmake" / "android.toolchain.cmake").touch()
    monkeypatch.setenv("ANDROID_NDK_HOME", str(tmp_path))
    for build in PLATFORMS["android"].builds:
        found = find_toolchain(PLATFORMS["android"], build)
        assert isinstance(found, Toolchain)
        assert found.name == f"Android NDK {tmp_path.name}"
        assert f"-DANDROID_ABI={build.abi}" in found.settings


def test_linux_takes_its_own_compiler_without_zig(no_tools, monkeypatch, tmp_path):
    if toolchain.sys.platform != "linux":
        pytest.skip("the host must be Linux")
    compiler = tmp_path / "aarch64-linux-gnu-g++"
    compiler.touch(mode=0o755)
    monkeypatch.setattr(toolchain.os, "uname", lambda: type("Host", (), {"machine": "x86_64"}))
    found = find_toolchain(PLATFORMS["linux-arm64"], PLATFORMS["linux-arm64"].builds[0])
    assert isinstance(found, Toolchain)
    assert "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++" in found.settings


def test_failed_build_names_platform_and_reason(monkeypatch, tmp_path):
    def fail(*_):
        raise NotRunError("cmake failed")

    monkeypatch.setattr(package, "install_tree", fail)
    monkeypatch.setattr(package, "find_toolchain", lambda *_: Toolchain("zig", ()))
    with pytest.raises(EdgeEmbedError, match="platform linux-x64: nothing was made: cmake failed"):
        make("linux-x64", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "part"), [("windows", "wine"), ("linux-arm64", "qemu-aarch64"), ("macos", "macos")])
def test_missing_emulator_is_named(no_tools, monkeypatch, tmp_path, name, part):
    monkeypatch.setattr(execution.machine, "machine", lambda: "riscv64")
    platform = PLATFORMS[name]
    with pytest.raises(NotRunError, match=part):
        execution.run_library(platform, platform.builds[0], Toolchain("zig", (), ("zig", "cc")), tmp_path, 1)


def test_android_without_jdk_has_sources_and_the_reason(no_tools, tmp_path):
    tree = tmp_path / "tree"
    (tree / "include").mkdir(parents=True)
    (tree / "lib").mkdir()
    work = Work(PLATFORMS["android"], dict.fromkeys(PLATFORMS["android"].builds, tree))
    lay_out_android(work, tmp_path / "out")
    (left,) = work.not_made
    assert left.what.startswith("classes.jar and edge-embed-ops-")
    assert left.reason == "a JDK is missing: apt-get install default-jdk-headless"
    source = (tmp_path / "out/java/edgeembed/ops/EdgeEmbedOps.java").read_text()
    assert f'String VERSION = "{edge_embed.__version__}";' in source
    assert (tmp_path / "out/aar/AndroidManifest.xml").is_file()
    with pytest.raises(NotRunError, match="a JDK is missing"):
        compile_helper(tmp_path / "classes.jar")
