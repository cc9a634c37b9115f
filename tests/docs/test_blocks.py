"""Every block of every page runs, compiles, or is of a kind that does neither."""

import ctypes
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

import edge_embed
from edge_embed.targets.arm64 import Arm64
from edge_embed.targets.catalog import make_target
from edge_embed.targets.target import NotRunError
from edge_embed.targets.web.browser import browser_lacks
from edge_embed.targets.web.package import fetch_runtime

from ..onnxruntime_archive import lay_out_archive
from .first_vector import FILES, shown_page
from .pages import DOCS, PAGES, ROOT, Page, Runs, run

CPP, JAVA, WEB, NPM = (Page(DOCS / "deployment" / f"{name}.md") for name in ("cpp", "android", "web", "web-package"))
TARGETS = Page(DOCS / "verification" / "targets.md")
LAYOUT = Page(DOCS / "development" / "architecture.md")

# Each traces several models of transformers.
LONG = "guides/transformers", "guides/encoder-decoder", "guides/language-models", "guides/calibrate"
WITH_PROGRAMS = [page for page in PAGES if any(block.is_run for block in page.blocks)]

# Kinds of blocks that no page runs. The first have tests of their own, for the block of one page.
OF_ONE_PAGE = {
    "cpp": CPP,
    "html": NPM,
    "html page": WEB,
    "java": JAVA,
    "js": WEB,
    "js package": NPM,
    "sh arm64": TARGETS,
    "sh cpp": CPP,
    "sh npm": WEB,
    "text layers": LAYOUT,
    "text tree": LAYOUT,
}
SHOWN = {"c", "json", "sh install", "text"}


def _marked(page: Page) -> object:
    """Return the parameter of a page."""
    return pytest.param(page, id=page.name, marks=[pytest.mark.long] if page.name in LONG else [])


@pytest.mark.slow
@pytest.mark.parametrize("page", [_marked(page) for page in WITH_PROGRAMS])
def test_page_blocks_in_order_run(runs: Runs, page: Page) -> None:
    assert runs.folder(page).is_dir()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_blocks_have_known_kinds(page: Page) -> None:
    for block in page.blocks:
        assert block.is_run or block.is_make or block.language in SHOWN or OF_ONE_PAGE[block.language] == page, block


@pytest.mark.parametrize("command", sorted({block.text for page in PAGES for block in page.blocks if block.is_make}))
def test_makefile_has_targets_of_pages(command: str) -> None:
    for line in command.splitlines():
        run([*shlex.split(line, comments=True), "--dry-run"], ROOT)


@pytest.mark.slow
def test_arm64_command_counts_instructions(runs: Runs) -> None:
    if lacks := Arm64().lacks():
        pytest.skip("; ".join(f"{lack.what}: {lack.remedy}" for lack in lacks))
    printed = run(["bash", "-euc", TARGETS.only("sh arm64")], runs.folder(TARGETS)).stdout
    assert re.search(r"arm64:cortex-a53: [\d,]+ instructions, [\d,]+ loads, [\d,]+ stores", printed)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["registered", "left out"])
def test_cpp_program_prints_scores(runs: Runs, tmp_path: Path, library: str) -> None:
    source = CPP.only("cpp")
    if library == "left out":
        source, removed = re.subn(r".*RegisterCustomOpsLibrary.*\n", "", source)
        assert removed == 1
    folder = Path(shutil.copytree(runs.folder(CPP), tmp_path / "page"))
    (folder / "main.cc").write_text(source)
    lay_out_archive(folder / "onnxruntime")
    assert run(["bash", "-euc", CPP.only("sh cpp")], folder).stdout == "36 scores\n"


@pytest.mark.slow
def test_html_page_shows_scores(runs: Runs, tmp_path: Path) -> None:
    if lacks := browser_lacks():
        pytest.skip(f"{lacks[0].what}: {lacks[0].remedy}")
    if shutil.which("npm") is None:
        pytest.skip("npm is missing: apt-get install npm")
    folder = Path(shutil.copytree(runs.folder(WEB), tmp_path / "work"))
    options = {"npm_config_prefer_offline": "true", "npm_config_ignore_scripts": "true", "npm_config_audit": "false"}
    run(["bash", "-euc", WEB.only("sh npm")], folder, **options)
    (folder / FILES["html page"]).write_text(WEB.only("html page"))
    assert "<body>36 scores</body>" in "".join(shown_page(folder, os.environ).split("\n"))


@pytest.mark.slow
def test_javascript_program_prints_scores(runs: Runs, tmp_path: Path) -> None:
    if problems := make_target("node").lacks():
        pytest.skip("; ".join(f"{problem.what}: {problem.remedy}" for problem in problems))
    try:
        runtime = fetch_runtime(300)
    except NotRunError as error:
        pytest.skip(str(error))
    (tmp_path / "main.mjs").write_text(WEB.only("js"))
    (tmp_path / "node_modules").symlink_to(runtime.parents[1])
    assert run(["node", str(tmp_path / "main.mjs")], runs.folder(WEB)).stdout == "36 scores\n"


def test_operator_library_has_names_of_pages() -> None:
    path = edge_embed.get_library_path()
    assert f"/{path.name}" in JAVA.only("java")
    assert f'"{path.name}"' in CPP.only("cpp")
    library = ctypes.CDLL(str(path))
    assert "`RegisterEdgeEmbedOps(" in CPP.text
    assert library.RegisterEdgeEmbedOps
    assert library.RegisterCustomOps
