"""Wheels of all platforms: made twice, installed in clean environments, and used there."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from debian_python import TOOLS, arm64_python

import edge_embed
from edge_embed.packages.builds import install_tree
from edge_embed.packages.execution import run_library
from edge_embed.packages.platforms import PLATFORMS
from edge_embed.packages.toolchain import Toolchain, find_toolchain, zig_program
from edge_embed.targets.cache import cached_folder
from release.tags import find_targets
from release.wheels import make_distributions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,  # the kernels are compiled for seven platforms, which takes ten minutes on two threads of a core
    pytest.mark.skipif(sysconfig.get_platform() != "linux-x86_64", reason="the host must be x86-64 Linux"),
]
ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "golden" / "dpq_vq_program.pt"
TIME_LIMIT = 1800
PIP = Path(importlib.util.find_spec("pip").origin).parent
HERE = "manylinux_2_17_x86_64"
LOOK_UP = """
import edge_embed, numpy, sys
assert edge_embed.__file__.startswith(sys.argv[1]), edge_embed.__file__
assert str(edge_embed.get_library_path()).startswith(sys.argv[1]), edge_embed.get_library_path()
print(edge_embed.create_session(sys.argv[2]).run(None, {"ids": numpy.arange(4)[None]})[0].tolist())
"""
LOAD = r"""
#include <windows.h>
#include <stdio.h>
int main(int count, char** names) {
  for (int i = 1; i + 1 < count; i += 2) {
    HMODULE library = LoadLibraryA(names[i]);
    if (!library || !GetProcAddress(library, names[i + 1])) return printf("%s: %lu", names[i], GetLastError()), 1;
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the folder of all distributions."""
    if zig_program() is None:
        pytest.skip("zig is missing: pip install 'edge-embed[package]'")
    folder = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_CONSTRAINT", str(ROOT / ".ci" / "constraints.txt"))
        patch.setenv("SOURCE_DATE_EPOCH", "1767225600")
        make_distributions(find_targets(()), folder, TIME_LIMIT)
        again = tmp_path_factory.mktemp("again")
        make_distributions(find_targets(("linux-arm64",)), again, TIME_LIMIT)
    return folder, again


def wheel_of(made, platform: str) -> Path:
    (wheel,) = made[0].glob(f"*-py3-none-{platform}.whl")
    return wheel


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return a file of this checkout, and its rows as text."""
    model = tmp_path_factory.mktemp("exported") / "model.onnx"
    edge_embed.export(PROGRAM, "onnx", model)
    rows = edge_embed.create_session(model).run(None, {"ids": np.arange(4)[None]})[0]
    return model, f"{rows.tolist()}\n"


def run(*command, **options) -> subprocess.CompletedProcess[str]:
    others = {"EDGE_EMBED_LIBRARY", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"}  # paths that fit the checkout alone
    environment = {name: value for name, value in os.environ.items() if name not in others}
    environment |= {"WINEDEBUG": "-all", "WINEPREFIX": str(cached_folder("wine"))}  # as `run_library`
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **options)


def test_distributions_have_names_of_all_platforms(made):
    name = f"edge_embed-{edge_embed.__version__}"
    platforms = [HERE, "manylinux_2_28_aarch64", "macosx_11_0_arm64", "macosx_11_0_x86_64", "win_amd64"]
    wheels = {f"{name}-py3-none-{platform}.whl" for platform in platforms}
    assert {path.name for path in made[0].iterdir()} == {*wheels, f"{name}.tar.gz"}


def test_distributions_made_twice_have_same_bytes(made):
    files = sorted(path.name for path in made[1].iterdir())
    assert [Path(name).suffix for name in files] == [".whl", ".gz"]
    for name in files:
        assert (made[0] / name).read_bytes() == (made[1] / name).read_bytes(), name


def test_wheels_for_other_platforms_are_refused_by_pip(made, tmp_path):
    for wheel in sorted(made[0].glob("*.whl")):
        done = run(sys.executable, PIP, "install", "--no-deps", "--dry-run", "--target", tmp_path / "site", wheel)
        if wheel == wheel_of(made, HERE):
            assert done.returncode == 0, done.stderr
        else:
            assert f"{wheel.name} is not a supported wheel on this platform" in done.stderr


def test_wheel_of_this_platform_exports_and_runs_in_clean_environment(made, exported, tmp_path):
    place = tmp_path / "clean"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    (site,) = place.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(str(Path(np.__file__).parents[1]))  # other packages, without editable installs
    done = run(sys.executable, PIP, "--python", python, "install", "--no-deps", wheel_of(made, HERE), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    model, expected = exported
    own = tmp_path / "own.onnx"
    export = run(place / "bin" / "edge-embed", "export", PROGRAM, "--target", "onnx", "-o", own, cwd=tmp_path)
    assert export.returncode == 0, export.stderr
    done = run(python, "-c", LOOK_UP, place, own, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    assert own.read_bytes() == model.read_bytes()


def test_arm64_wheel_installs_and_looks_up_same_rows_under_qemu(made, exported, tmp_path):
    """Pip of the emulated Python accepts the tag; the library loads and runs in its ONNX Runtime."""
    for tool, remedy in TOOLS.items():
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing: {remedy}")
    model, expected = exported
    site = tmp_path / "site"
    with arm64_python() as (python, packages):
        options = ["--quiet", "--no-deps", "--no-compile", "--no-index", "--target", site]
        done = run(*python, PIP, "install", *options, wheel_of(made, "manylinux_2_28_aarch64"))
        assert done.returncode == 0, done.stderr
        code = f"import sys; sys.path[:0] = [{str(site)!r}, {str(packages)!r}]\n{LOOK_UP}"
        done = run(*python, "-c", code, site, model, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_windows_libraries_of_wheel_run_under_wine(made, tmp_path):
    """No Python for Windows is at hand, so C programs call the libraries of the wheel."""
    if shutil.which("wine") is None:
        pytest.skip("wine is missing: apt-get install wine")
    platform = PLATFORMS["windows"]
    (build,) = platform.builds
    toolchain = find_toolchain(platform, build)
    assert isinstance(toolchain, Toolchain)
    tree = tmp_path / "tree"
    shutil.copytree(install_tree(build, toolchain, TIME_LIMIT), tree)  # headers and the import library
    with zipfile.ZipFile(wheel_of(made, "win_amd64")) as archive:
        for part in ("ops", "tflite", "training", "bench"):
            name = f"edge_embed_{part}.dll"
            (tree / "bin" / name).write_bytes(archive.read(f"edge_embed/runtime/{name}"))
    evidence, instruction_sets = run_library(platform, build, toolchain, tree, TIME_LIMIT)
    assert evidence == "executed-emulated"
    assert instruction_sets.endswith("portable, reference")
    (tmp_path / "load.c").write_text(LOAD)
    program = tree / "bin" / "load.exe"
    subprocess.run([*toolchain.c_compiler, tmp_path / "load.c", "-o", program], check=True)
    entries = {"tflite": "tflite_plugin_create_delegate", "training": "ee_training_isa", "bench": "eb_read"}
    names = [word for part, entry in entries.items() for word in (f"edge_embed_{part}.dll", entry)]
    done = run("wine", program, *names, cwd=tree / "bin")
    assert (done.returncode, done.stdout) == (0, "")
