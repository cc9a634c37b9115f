"""README.md is true: its commands and programs run, and what it lists is what there is."""

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import onnxruntime
import pytest
from click.testing import CliRunner

import edge_embed
from edge_embed import cli, errors
from edge_embed.targets.arm64 import Arm64
from edge_embed.targets.catalog import list_targets, make_target
from edge_embed.targets.target import NotRunError
from edge_embed.targets.web.package import fetch_runtime

from .warm import Warm

METHODS = ("ant", "dpq", "tt")  # what the README's x stands for
TARGETS = "| target | what it is | needs | evidence | tried on |"
ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCRIPTS = sysconfig.get_path("scripts")


@dataclass(frozen=True)
class Block:
    """One fenced block: what stands behind the fence, and its text."""

    language: str
    text: str


BLOCKS = [Block(*found) for found in re.findall(r"^```([^\n]*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)]


def only(language: str) -> str:
    """The text of the one block of a language."""
    (block,) = [block for block in BLOCKS if block.language == language]
    return block.text


def is_make(block: Block) -> bool:
    return block.language == "sh" and block.text.startswith("make ")


def table_rows(header: str) -> Iterator[list[str]]:
    """Cells of the rows of the table below a header line."""
    table = README.split(f"\n{header}\n", 1)[1].split("\n\n", 1)[0]
    for line in table.splitlines()[1:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([SCRIPTS, os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8", **environment}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where every Python and shell block has run, in order, and printed what stands below it."""
    folder = tmp_path_factory.mktemp("readme")
    printed = ""
    with Warm() as warm:
        path = os.pathsep.join([str(warm.scripts), SCRIPTS, os.environ["PATH"]])
        for block in BLOCKS:
            if block.language == "python":
                printed = run(warm.program(block.text), folder).stdout
            elif block.language == "sh" and not is_make(block):
                printed = run(["bash", "-euo", "pipefail", "-c", block.text], folder, PATH=path).stdout
            elif block.language == "toml":
                (folder / "edge-embed.toml").write_text(block.text, encoding="utf-8")
            elif block.language == "text output":
                assert [line.rstrip() for line in printed.splitlines()] == block.text.splitlines()
    return folder


class TestBlocks:
    @pytest.mark.slow
    def test_every_program_and_command_runs(self, workplace: Path) -> None:
        made = {path.name for path in workplace.iterdir()}
        assert made == set(
            "16-codes.json 4-codes.json baseline.json check.html check.md check.xml classifier.pt compare.html "
            "compare.md edge-embed.toml inputs.npz language.pt model.onnx model.pt model.tflite report.html report.md "
            "small.onnx smaller.onnx smaller.pt suggestions.onnx tables.safetensors texts.onnx tokenizer.json "
            "words.json words.pt words.tflite worst.npz changes.svg usage.svg dense.pt compressed.pt compressed.onnx "
            "shared.pt distilled.pt tried.svg topics.onnx topics.onnx.data topics_small.onnx glove.txt vectors.pt "
            "vectors.onnx chat chat.pt chat.onnx".split()
        )

    def test_every_kind_of_block_is_known(self) -> None:
        texts = {"toml", "text", "text output", "text tree", "text layers"}
        known = {"python", "sh", "sh arm64", "cpp", "java", "js"} | texts
        assert {block.language for block in BLOCKS} == known

    @pytest.mark.parametrize(
        "block", [block for block in BLOCKS if is_make(block)], ids=lambda block: block.text.strip()
    )
    def test_make_has_the_target(self, block: Block) -> None:
        run([*shlex.split(block.text), "--dry-run"], ROOT)

    @pytest.mark.slow
    def test_the_command_for_an_emulated_processor_runs(self, workplace: Path) -> None:
        if lacks := Arm64().lacks():
            pytest.skip("; ".join(f"{lack.what}: {lack.remedy}" for lack in lacks))
        printed = run(["bash", "-euc", only("sh arm64")], workplace).stdout
        assert re.search(r"arm64:cortex-a53: [\d,]+ instructions, [\d,]+ loads, [\d,]+ stores", printed)

    @pytest.mark.slow
    @pytest.mark.parametrize("library", ["registered", "left out"])
    def test_the_cpp_program_runs(self, workplace: Path, tmp_path: Path, library: str) -> None:
        source = only("cpp")
        if library == "left out":
            source, removed = re.subn(r".*RegisterCustomOpsLibrary.*\n", "", source)
            assert removed == 1
        (tmp_path / "main.cc").write_text(source)
        runtime = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
        (tmp_path / "libonnxruntime.so.1").symlink_to(runtime)
        compiler = os.environ.get("CXX", "c++")
        run([compiler, "-std=c++17", f"-I{_headers()}", "main.cc", str(runtime), "-o", "main"], tmp_path)
        libraries = tmp_path if library == "left out" else f"{tmp_path}:{edge_embed.get_library_path().parent}"
        printed = run([str(tmp_path / "main")], workplace, LD_LIBRARY_PATH=str(libraries)).stdout
        assert printed == "36 scores\n"

    @pytest.mark.slow
    def test_the_javascript_program_runs(self, workplace: Path, tmp_path: Path) -> None:
        if problems := make_target("node").lacks():
            pytest.skip("; ".join(f"{problem.what}: {problem.remedy}" for problem in problems))
        try:
            runtime = fetch_runtime(300)
        except NotRunError as error:
            pytest.skip(str(error))
        (tmp_path / "main.mjs").write_text(only("js"))
        (tmp_path / "node_modules").symlink_to(runtime.parents[1])
        assert run(["node", str(tmp_path / "main.mjs")], workplace).stdout == "36 scores\n"

    def test_the_library_is_as_the_apps_name_it(self) -> None:
        path = edge_embed.get_library_path()
        assert f"/{path.name}" in only("java")
        assert f'"{path.name}"' in only("cpp")
        library = ctypes.CDLL(str(path))
        assert "`RegisterEdgeEmbedOps`" in README
        assert library.RegisterEdgeEmbedOps
        assert library.RegisterCustomOps


def _headers() -> Path:
    """The folder of ONNX Runtime's C++ header that the operator library was built with, or another."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edge-embed"
    folders = [os.environ.get("ONNXRUNTIME_INCLUDE_DIR", ""), *cache.glob("onnxruntime-headers-*")]
    folders += ["/usr/include/onnxruntime", "/usr/local/include/onnxruntime"]
    for folder in map(Path, folders):
        if (folder / "onnxruntime_cxx_api.h").is_file():
            return folder
    pytest.skip(
        "the C headers of ONNX Runtime are here, its C++ header onnxruntime_cxx_api.h is not: set "
        "ONNXRUNTIME_INCLUDE_DIR to a folder that has both"
    )


class TestCommandLine:
    def test_every_command_and_option_is_listed(self) -> None:
        listed = {
            re.findall(r"`edge-embed (\w+)", command)[0]: set(re.findall(r"--[\w-]+", options))
            for command, _, options in table_rows("| command | does | options |")
        }
        assert listed == {name: _long_options(command) for name, command in cli.main.commands.items()}

    def test_every_target_is_listed(self) -> None:
        listed = {target.strip("`"): evidence for target, _, _, evidence, _ in table_rows(TARGETS)}
        assert listed == {target.name: target.evidence for target in list_targets()}

    def test_every_exit_code_is_listed(self) -> None:
        listed = {int(code) for code, _ in table_rows("| exit code | |")}
        classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
        of_errors = {error.exit_code for error in classes}
        assert listed == {0} | of_errors
        assert cli.__doc__ is not None
        assert listed == {int(code) for code in re.findall(r"\b\d\b", cli.__doc__)}

    def test_usage_and_bad_input_end_with_2(self, tmp_path: Path) -> None:
        command = shutil.which("edge-embed", path=SCRIPTS)
        assert command is not None
        for arguments in (["no-such-command"], ["inspect", "absent.onnx"]):
            done = subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, check=False)
            assert done.returncode == 2, done.stderr
        line = ["export", str(tmp_path / "absent.pt"), "--target", "onnx"]  # here: a process would load torch for it
        assert CliRunner().invoke(cli.main, line).exit_code == 2

    def test_every_command_line_in_the_text_is_one(self) -> None:
        for line in re.findall(r"`(edge-embed [^`]+)`|^(edge-embed .+)$", README, re.MULTILINE):
            _, name, *rest = "".join(line).split()
            options = {word for word in rest if word.startswith("--")}
            assert options <= _long_options(cli.main.commands[name]), line


def _long_options(command: click.Command) -> set[str]:
    """Long options as ``--help`` shows them, without ``--help``."""
    context = click.Context(command, info_name=command.name)
    shown = re.findall(r"^\s+(?:-\w, )?(--[\w-]+)", command.get_help(context), re.MULTILINE)
    return set(shown) - {"--help"}


class TestDescription:
    def test_every_link_leads_somewhere(self) -> None:
        samples = (str(path.relative_to(ROOT)) for path in (ROOT / "samples").glob("*/README.md"))
        for name in ("README.md", "CHANGELOG.md", "runtime_ops/README.md", *samples):
            document = ROOT / name
            for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
                assert target.startswith("https://") or (document.parent / target).exists(), f"{name}: {target}"

    def test_the_tree_is_the_tree(self) -> None:
        parent, shown = Path(), set()
        for line in only("text tree").splitlines():
            name = line.split()[0]
            path = parent / name if line.startswith("  ") else Path(name)
            parent = parent if line.startswith("  ") else path
            assert (ROOT / path).is_dir() == name.endswith("/"), path
            assert (ROOT / path).exists(), path
            shown.add(path)
        there = {path.parent.relative_to(ROOT) for path in (ROOT / "edge_embed").glob("*/__init__.py")}
        assert there <= shown

    def test_the_layers_are_those_of_the_import_rules(self) -> None:
        rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
        (layers,) = [rule["layers"] for rule in rules if rule["id"] == "layers"]
        assert only("text layers").splitlines() == layers

    def test_every_public_name_in_it_exists(self) -> None:
        modules = {"compression", "exporters", "fitting", "layers", "packed", "study"}
        for name in set(re.findall(r"\bedge_embed\.(\w+)", README)) - modules:
            assert name in edge_embed.__all__, name

    def test_every_path_in_it_exists(self) -> None:
        for path in re.findall(r"`((?:edge_embed|exporters|runtime_ops|samples|tests)/[\w./]*)`", README):
            for method in METHODS if re.search(r"/x(_shape)?[./]", path) else ["x"]:
                assert (ROOT / re.sub(r"/x(?=[_./])", f"/{method}", path)).exists(), path

    def test_the_changelog_names_this_version(self) -> None:
        assert edge_embed.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
