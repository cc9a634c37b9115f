"""Installed package: public names, cost of the import, path of the library, contents of the distributions."""

import importlib.metadata
import json
import os
import pkgutil
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

import edge_embed
from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.runtime import library

ROOT = Path(__file__).parents[1]
FRAMEWORKS = {"torch", "numpy", "onnx", "onnxscript", "onnxruntime", "safetensors", "click", "rich"}


def run_python(code: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


class TestPublicNames:
    def test_import_of_package_loads_no_framework(self, tmp_path: Path) -> None:
        code = "import sys; before = set(sys.modules); import edge_embed; print(*set(sys.modules) - before)"
        result = run_python(code, tmp_path)
        assert result.returncode == 0, result.stderr
        loaded = set(result.stdout.split())
        assert not loaded & FRAMEWORKS
        assert [name for name in loaded if name.startswith("edge_embed")] == ["edge_embed"]
        assert len(loaded) < 25

    def test_library_path_loads_no_framework(self, tmp_path: Path) -> None:
        code = "import sys, edge_embed; edge_embed.get_library_path(); print(*sys.modules)"
        result = run_python(code, tmp_path)
        assert result.returncode == 0, result.stderr
        assert not set(result.stdout.split()) & FRAMEWORKS

    def test_star_import_gives_only_public_names(self) -> None:
        namespace: dict[str, object] = {}
        exec("from edge_embed import *", namespace)
        del namespace["__builtins__"]
        assert sorted(namespace) == sorted(edge_embed.__all__)

    def test_dir_lists_public_names(self) -> None:
        assert dir(edge_embed) == sorted(edge_embed.__all__)

    @pytest.mark.parametrize("name", sorted(set(edge_embed.__all__) - {"__version__"}))
    def test_public_name_has_module_of_package(self, name: str) -> None:
        value = getattr(edge_embed, name)
        assert value.__name__ == name
        assert value.__module__.startswith("edge_embed.")

    def test_public_names_differ_from_submodules(self) -> None:
        submodules = {module.name for module in pkgutil.iter_modules(edge_embed.__path__)}
        assert not submodules & set(edge_embed.__all__)

    def test_unknown_name_raises_with_list_of_known_names(self) -> None:
        with pytest.raises(AttributeError, match=r"'edge_embed' has no attribute 'DPQ'.*DPQEmbedding"):
            edge_embed.DPQ  # noqa: B018
        with pytest.raises(ImportError, match="cannot import name 'DPQ'"):
            exec("from edge_embed import DPQ")

    def test_version_equals_version_of_distribution(self) -> None:
        assert edge_embed.__version__ == importlib.metadata.version("edge-embed")

    def test_package_has_typing_marker(self) -> None:
        assert (Path(edge_embed.__file__).parent / "py.typed").is_file()


class TestExportersName:
    def test_exporters_import_as_subpackage_from_any_folder(self, tmp_path: Path) -> None:
        code = "import edge_embed.exporters.onnx as target; print(target.__name__)"
        for cwd in (tmp_path, ROOT):
            result = run_python(code, cwd)
            assert result.stdout.strip() == "edge_embed.exporters.onnx", result.stderr

    def test_exporters_import_without_package_is_refused(self) -> None:
        result = run_python("import exporters", ROOT)
        assert result.returncode == 1
        assert "ImportError: imported as 'exporters', expected 'edge_embed.exporters'" in result.stderr


def build_library(folder: Path, source: str) -> Path:
    """Compile one C++ file to a shared library, as a stand-in for a foreign operator library."""
    (folder / "fake.cc").write_text(source)
    target = folder / "fake.so"
    compiler = os.environ.get("CXX", "c++")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", target, folder / "fake.cc"], check=True)
    return target


# The first bytes of libraries for machines that run none of the tests.
FOREIGN = {
    "Linux on arm": b"\x7fELF\x01\x01".ljust(18, b"\0") + struct.pack("<H", 40),
    "Linux on an unknown processor": b"\x7fELF\x02\x01".ljust(18, b"\0") + struct.pack("<H", 243),
    "macOS on arm64": struct.pack("<II", 0xFEEDFACF, 0x0100000C),
    "Windows on x86-64": b"MZ".ljust(0x3C, b"\0") + struct.pack("<I4sH", 0x40, b"PE\0\0", 0x8664),
}


class TestLibrary:
    def test_installed_library_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(library.ENVIRONMENT_NAME, raising=False)
        path = edge_embed.get_library_path()
        assert path.is_absolute()
        assert path.is_file()
        assert path.parent.parts[-2:] == ("edge_embed", "runtime")

    def test_empty_library_variable_counts_as_unset(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(library.ENVIRONMENT_NAME, raising=False)
        installed = edge_embed.get_library_path()
        monkeypatch.setenv(library.ENVIRONMENT_NAME, "")
        assert edge_embed.get_library_path() == installed

    def test_library_variable_precedes_installed_library(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        source = f'extern "C" const char* ee_version() {{ return "{edge_embed.__version__}"; }}'
        own = build_library(tmp_path, source)
        monkeypatch.chdir(tmp_path)
        # A bare name is a file of the working folder, not a name that the loader looks up in its folders.
        monkeypatch.setenv(library.ENVIRONMENT_NAME, own.name)
        assert edge_embed.get_library_path() == own.resolve()

    @pytest.mark.parametrize("version", ["0.0.9", edge_embed.__version__ + "1", ""])
    def test_library_of_another_version_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
    ) -> None:
        other = build_library(tmp_path, f'extern "C" const char* ee_version() {{ return "{version}"; }}')
        monkeypatch.setenv(library.ENVIRONMENT_NAME, str(other))
        with pytest.raises(BadInputError) as caught:
            edge_embed.get_library_path()
        for part in (str(other), version, f"expected {edge_embed.__version__}", "unset EDGE_EMBED_LIBRARY"):
            assert part in str(caught.value)

    def test_library_without_version_is_refused(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        foreign = build_library(tmp_path, 'extern "C" int something_else() { return 1; }')
        monkeypatch.setenv(library.ENVIRONMENT_NAME, str(foreign))
        with pytest.raises(BadInputError, match="has no function ee_version"):
            edge_embed.get_library_path()

    def test_library_variable_naming_text_file_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        text = tmp_path / "notes.txt"
        text.write_text("not a library")
        monkeypatch.setenv(library.ENVIRONMENT_NAME, str(text))
        with pytest.raises(BadInputError, match=r"notes\.txt, which this system cannot load"):
            edge_embed.get_library_path()

    @pytest.mark.parametrize("system", FOREIGN)
    def test_library_for_another_machine_is_refused_with_both_names(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str
    ) -> None:
        other = tmp_path / "other.so"
        other.write_bytes(FOREIGN[system])
        monkeypatch.setenv(library.ENVIRONMENT_NAME, str(other))
        expected = rf"cannot load .*it is for {system}, expected one for \w+ on \S+; install the package again"
        with pytest.raises(BadInputError, match=expected):
            edge_embed.get_library_path()

    @pytest.mark.parametrize(
        ("system", "name"), [("macOS on arm64", "libedge_embed_ops.dylib"), ("Windows on x86-64", "edge_embed_ops.dll")]
    )
    def test_installation_for_another_system_is_told_what_it_has(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str, name: str
    ) -> None:
        (tmp_path / name).write_bytes(FOREIGN[system])
        monkeypatch.delenv(library.ENVIRONMENT_NAME, raising=False)
        monkeypatch.setattr(library, "installed_path", lambda part: tmp_path / f"lib{part}.so")
        with pytest.raises(EdgeEmbedError, match=rf" for \w+ on \S+, found {name} for {system}: install"):
            edge_embed.get_library_path()

    def test_library_variable_naming_missing_file_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv(library.ENVIRONMENT_NAME, str(tmp_path / "absent.so"))
        with pytest.raises(BadInputError, match=r"EDGE_EMBED_LIBRARY names .*absent\.so, which is not a file"):
            edge_embed.get_library_path()

    def test_delegate_lies_beside_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(library.ENVIRONMENT_NAME, raising=False)
        path = library.get_delegate_path()
        assert path.is_file()
        assert path.parent == edge_embed.get_library_path().parent

    def test_missing_delegate_raises_with_remedy(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        alone = shutil.copy(edge_embed.get_library_path(), tmp_path)
        monkeypatch.setenv(library.ENVIRONMENT_NAME, str(alone))
        with pytest.raises(
            EdgeEmbedError, match=r"edge_embed_tflite.*beside the operator library, found none: install"
        ):
            library.get_delegate_path()

    def test_missing_library_raises_with_remedy(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv(library.ENVIRONMENT_NAME, raising=False)
        monkeypatch.setattr(library, "_file_name", lambda name: "libabsent.so")
        with pytest.raises(EdgeEmbedError, match=r"libabsent\.so for .*, found none: .*make install") as caught:
            edge_embed.get_library_path()
        assert caught.value.exit_code == 1

    def test_uninstalled_package_raises_with_remedy(self, tmp_path: Path) -> None:
        # -S: only the checkout, no site-packages.
        code = "import edge_embed; edge_embed.get_library_path()"
        result = subprocess.run(
            [sys.executable, "-S", "-c", code],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 1
        assert "package edge-embed is not installed" in result.stderr
        assert "make install" in result.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from it, unless that is done; return their folder."""
    if "EDGE_EMBED_DISTRIBUTIONS" in os.environ:
        return Path(os.environ["EDGE_EMBED_DISTRIBUTIONS"])
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True)
    return folder


# The program that runs a model on a target and the library that QEMU counts with, on the platforms that have them.
PROGRAMS = {"linux": ("edge_embed_runner", "libedge_embed_count.so"), "darwin": ("edge_embed_runner",)}.get(
    sys.platform, ()
)


@pytest.mark.slow
class TestDistributions:
    def test_wheel_holds_only_package_and_operator_sources(self, built: Path) -> None:
        (wheel,) = built.glob("*.whl")
        assert "-py3-none-" in wheel.name
        with zipfile.ZipFile(wheel) as archive:
            shipped = set(archive.namelist())
        assert {
            "edge_embed/py.typed",
            "edge_embed/exporters/__init__.py",
            f"edge_embed/runtime/{library._file_name('edge_embed_ops')}",
            f"edge_embed/runtime/{library._file_name('edge_embed_bench')}",
            f"edge_embed/runtime/{library._file_name('edge_embed_tflite')}",
            f"edge_embed/runtime/{library._file_name('edge_embed_training')}",
            *(f"edge_embed/runtime/{name}" for name in PROGRAMS),
            "edge_embed/runtime_ops/CMakeLists.txt",
            "edge_embed/runtime_ops/c_api/edge_embed.h",
        } <= shipped
        assert {name.split("/")[0] for name in shipped} == {
            "edge_embed",
            f"edge_embed-{edge_embed.__version__}.dist-info",
        }
        assert not [name for name in shipped if {"tests", "build", "__pycache__"} & set(Path(name).parts)]

    def test_source_distribution_holds_no_build_output(self, built: Path) -> None:
        (sdist,) = built.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            sources = {name.partition("/")[2] for name in archive.getnames()}
        assert {"LICENSE", "README.md", "edge_embed/exporters/__init__.py", "runtime_ops/CMakeLists.txt"} <= sources
        assert not [name for name in sources if name.startswith((".venv", "build", "dist"))]

    def test_library_builds_from_sources_in_wheel(
        self, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (wheel,) = built.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path)
        cmake = [sys.executable, "-m", "cmake"]
        version = f"-DSKBUILD_PROJECT_VERSION={edge_embed.__version__}"
        sources, build = tmp_path / "edge_embed" / "runtime_ops", tmp_path / "build"
        subprocess.run([*cmake, "-S", sources, "-B", build, version], check=True)
        subprocess.run([*cmake, "--build", build, "--target", "edge_embed_ops"], check=True)
        path = build / library._file_name("edge_embed_ops")
        monkeypatch.setenv(library.ENVIRONMENT_NAME, str(path))
        assert edge_embed.get_library_path() == path

    def test_runtime_extra_alone_runs_exported_files_and_inspects(self, built: Path, tmp_path: Path) -> None:
        (wheel,) = built.glob("*.whl")
        venv.create(tmp_path / "alone", with_pip=True)
        commands = tmp_path / "alone" / "bin"
        # `make` and .ci/run name the same file, relative to their folder.
        pinned = {**os.environ, "PIP_CONSTRAINT": str(ROOT / ".ci" / "constraints.txt")}

        def run(command: str, *arguments: str | Path, code: int = 0) -> str:
            done = subprocess.run(
                [commands / command, *arguments], cwd=tmp_path, env=pinned, capture_output=True, text=True, check=False
            )
            assert done.returncode == code, done.stderr
            return done.stdout + done.stderr

        run("python", "-m", "pip", "install", "--quiet", f"{wheel}[runtime]")
        installed = run("python", "-m", "pip", "list", "--format=freeze")
        assert not re.findall(r"^(?:torch|onnx|onnxscript|onnx[-_]ir)==", installed, re.MULTILINE)

        program, exported = ROOT / "tests" / "golden" / "dpq_vq_program.pt", tmp_path / "model.onnx"
        edge_embed.export(program, "onnx", exported)
        code = """
import edge_embed, numpy
print(edge_embed.create_session("model.onnx").run(None, {"ids": numpy.arange(4)[None]})[0].tolist())
"""
        rows = edge_embed.create_session(exported).run(None, {"ids": np.arange(4)[None]})[0]
        assert run("python", "-c", code) == f"{rows.tolist()}\n"
        doctor = json.loads(run("edge-embed", "doctor", "--json"))
        assert (doctor["ok"], doctor["library"]["runs"], doctor["versions"]["torch"]) == (True, True, None)
        assert "matches" in run("edge-embed", "inspect", "--verify", program.with_name("dpq_v1.safetensors"))
        assert "edge-embed[inspect]" in run("edge-embed", "inspect", exported, code=1)
        assert "edge-embed[export]" in run("edge-embed", "validate", program, exported, code=1)
