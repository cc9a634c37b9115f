"""The site builds without warnings and without a network, and its pages load nothing from elsewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import DOCS, PAGES, ROOT, Page

README = Page(ROOT / "README.md")


def _without_network() -> list[str]:
    """Return the words before a command that runs without network; none where the system has no namespaces."""
    unshare = shutil.which("unshare")
    if unshare and subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode == 0:
        return [unshare, "-rn"]
    return []


@pytest.mark.slow
def test_site_builds_without_warnings_and_network(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "-d",
        tmp_path / "doctrees",
    ]
    done = subprocess.run(
        [*_without_network(), *build, DOCS, tmp_path / "site"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert {DOCS / path.relative_to(tmp_path / "site").with_suffix(".md") for path in pages} >= set(DOCS.rglob("*.md"))
    for page in pages:
        loaded = re.findall(
            r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*\"", page.read_text()
        )
        assert not loaded, page
        assert not re.search(r"<p>\.\. \w+", page.read_text()), f"{page}: markup is shown as text"


def test_readme_is_one_page() -> None:
    assert len(README.text.splitlines()) <= 150
    assert len(README.text.split()) <= 1_300


def test_index_has_every_page() -> None:
    index = Page(DOCS / "index.md").text
    for page in PAGES[1:]:
        assert page.name == "index" or re.search(rf"^{page.name}$", index, re.MULTILINE), page.name
