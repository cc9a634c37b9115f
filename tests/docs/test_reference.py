"""Lists in the documents are complete: commands, targets, exit codes, extras, names, paths, versions."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import edge_embed
from edge_embed import cli, errors
from edge_embed.methods.registry import Parts
from edge_embed.targets.catalog import list_targets

from .pages import DOCS, PAGES, ROOT, SCRIPTS, Page
from .test_blocks import LAYOUT, TARGETS

EXIT_CODES = Page(DOCS / "reference" / "exit-codes.md")
INSTALL = Page(DOCS / "install.md")
API = Page(DOCS / "reference" / "python.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
IN_WHEEL = {"edge_embed/runtime_ops"}
METADATA = {  # keys of the metadata of exported files
    name
    for path in (ROOT / "edge_embed").rglob("*.py")
    for name in re.findall(r'"edge_embed\.([a-z_]+)"', path.read_text(encoding="utf-8"))
}
METHODS = tuple(Parts[object]("packed"))  # the values of x in paths such as edge_embed/packed/x.py


def _long_options(command: click.Command) -> set[str]:
    """Return the long options that ``--help`` shows, without ``--help``."""
    context = click.Context(command, info_name=command.name)
    shown = re.findall(r"^\s+(?:-\w, )?(--[\w-]+)", command.get_help(context), re.MULTILINE)
    return set(shown) - {"--help"}


class TestCommandLine:
    def test_targets_page_lists_every_target(self) -> None:
        listed = {
            target.strip("`"): evidence
            for target, _, _, evidence, _ in TARGETS.table_rows("| target | what it is | needs | evidence | tried on |")
        }
        assert listed == {target.name: target.evidence for target in list_targets()}

    def test_exit_codes_page_lists_every_code(self) -> None:
        rows = EXIT_CODES.table_rows("| exit code | meaning | exception in Python |")
        listed = {int(code) for code, *_ in rows if code.isdecimal()}
        classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
        assert listed >= {0} | {error.exit_code for error in classes}
        assert cli.__doc__ is not None
        assert listed >= {int(code) for code in re.findall(r"\b\d\b", cli.__doc__)}

    def test_usage_error_ends_with_2(self, tmp_path: Path) -> None:
        command = shutil.which("edge-embed", path=SCRIPTS)
        assert command is not None
        for arguments in (["no-such-command"], ["inspect", "absent.onnx"]):
            done = subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, check=False)
            assert done.returncode == 2, done.stderr
        line = ["export", str(tmp_path / "absent.pt"), "--target", "onnx"]  # here: a process would load torch for it
        assert CliRunner().invoke(cli.main, line).exit_code == 2

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
    def test_page_command_lines_have_real_options(self, page: Page) -> None:
        code = "\n".join(block.text for block in page.blocks)
        lines = re.findall(r"`(edge-embed [^`]+)`", page.text) + re.findall(r"^(edge-embed .+)$", code, re.MULTILINE)
        for line in lines:
            _, name, *rest = line.split()
            if name in cli.main.commands:
                options = {word.rstrip(",.") for word in rest if word.startswith("--")}
                assert options <= _long_options(cli.main.commands[name]) | {"--help"}, line
            else:
                assert name.startswith("-"), line


class TestNames:
    def test_api_page_lists_every_public_name(self) -> None:
        listed = set(re.findall(r"^\.\. auto\w+:: edge_embed\.(\w+)$", API.text, re.MULTILINE))
        assert listed == set(edge_embed.__all__) - {"__version__"}

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
    def test_page_public_names_exist(self, page: Page) -> None:
        modules = {path.stem for path in (ROOT / "edge_embed").iterdir()} | {"__file__"}
        for name in set(re.findall(r"(?<!/)\bedge_embed\.(\w+)", page.text)) - modules - METADATA:
            assert name in edge_embed.__all__, name

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
    def test_page_paths_exist(self, page: Page) -> None:
        for path in re.findall(r"`((?:edge_embed|exporters|runtime_ops|samples|tests|docs)/[\w./-]*)`", page.text):
            for method in METHODS if re.search(r"/x(_shape)?[./]", path) else ["x"]:
                assert path in IN_WHEEL or (ROOT / re.sub(r"/x(?=[_./])", f"/{method}", path)).exists(), path

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
    def test_page_extras_exist(self, page: Page) -> None:
        extras = PROJECT["project"]["optional-dependencies"]
        for names in re.findall(r"edge-embed\[([\w,-]+)\]", page.text):
            assert set(names.split(",")) <= set(extras), names

    def test_install_page_lists_every_extra(self) -> None:
        listed = {name for name, *_ in INSTALL.table_rows("| install | for | adds |")}
        extras = PROJECT["project"]["optional-dependencies"].keys() - {"dev"}
        assert listed == {"`edge-embed`", *(f"`edge-embed[{extra}]`" for extra in extras)}

    def test_changelog_names_this_version(self) -> None:
        assert edge_embed.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


class TestLayout:
    def test_tree_matches_folders(self) -> None:
        parent, shown = Path(), set()
        for line in LAYOUT.only("text tree").splitlines():
            name = line.split()[0]
            path = parent / name if line.startswith("  ") else Path(name)
            parent = parent if line.startswith("  ") else path
            assert (ROOT / path).is_dir() == name.endswith("/"), path
            assert (ROOT / path).exists(), path
            shown.add(path)
        there = {path.parent.relative_to(ROOT) for path in (ROOT / "edge_embed").glob("*/__init__.py")}
        assert there <= shown

    def test_layers_match_import_rules(self) -> None:
        (layers,) = [rule["layers"] for rule in PROJECT["tool"]["importlinter"]["contracts"] if rule["id"] == "layers"]
        assert LAYOUT.only("text layers").splitlines() == layers
