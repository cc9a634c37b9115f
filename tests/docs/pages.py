"""Pages of the documentation, their fenced blocks, and runs of them.

The words behind the fence say what happens to a block. ``python`` runs as a program and ``sh`` as a script. All blocks
of a page run in order, in one folder. ``toml`` is written to ``edge-embed.toml`` there, or to a name behind the word,
and ``text output`` is compared with the output of the block before. A page with ``after: PAGE`` in its front matter
runs in a copy of the folder that the other page leaves.
"""

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..warm import Warm

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SCRIPTS = sysconfig.get_path("scripts")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        language: the words behind the fence.
        text: the lines between the fences.
    """

    language: str
    text: str

    @property
    def is_run(self) -> bool:
        """Return whether the page runs the block in its folder."""
        return self.language.split()[0] in {"python", "toml"} or self.language == "text output" or self.is_script

    @property
    def is_script(self) -> bool:
        """Return whether the block is a shell script of the page."""
        return self.language == "sh" and not self.is_make

    @property
    def is_make(self) -> bool:
        """Return whether the block starts targets of the Makefile."""
        return self.language == "sh" and self.text.startswith("make ")


@dataclass(frozen=True)
class Page:
    """A Markdown file.

    Attributes:
        path: the file.
    """

    path: Path

    @property
    def name(self) -> str:
        """The path below ``docs/`` or the root of the repository, without suffix."""
        root = DOCS if DOCS in self.path.parents else ROOT
        return self.path.relative_to(root).with_suffix("").as_posix()

    @cached_property
    def text(self) -> str:
        """Everything in the file."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        """Blocks in order, without those of directives."""
        found = re.findall(r"^```([^\n]*)\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        return [Block(*block) for block in found if not block[0].startswith("{")]

    @property
    def after(self) -> "Page | None":
        """The page in whose finished folder this one runs."""
        front = re.match(r"---\nafter: (\S+)\n---\n", self.text)
        return Page(DOCS / f"{front[1]}.md") if front else None

    def only(self, language: str) -> str:
        """Return the text of the one block of a language."""
        (block,) = [block for block in self.blocks if block.language == language]
        return block.text

    def table_rows(self, header: str) -> Iterator[list[str]]:
        """Yield the cells of the rows of the table below a header line."""
        table = self.text.split(f"\n{header}\n", 1)[1].split("\n\n", 1)[0]
        for line in table.splitlines()[1:]:
            yield [cell.strip() for cell in line.strip("|").split("|")]


PAGES = [Page(ROOT / "README.md"), *map(Page, sorted(DOCS.rglob("*.md")))]


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command, with the scripts of this environment on the path; a failure shows its output."""
    path = os.pathsep.join([SCRIPTS, os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8", **environment}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done


class Runs:
    """Runs each page once, in a folder below ``root``."""

    def __init__(self, root: Path, warm: Warm) -> None:
        self._root, self._warm = root, warm
        self._path = os.pathsep.join([str(warm.scripts), SCRIPTS, os.environ["PATH"]])

    def folder(self, page: Page) -> Path:
        """Return the folder in which a page ran."""
        folder = self._root / page.name
        if folder.is_dir():
            return folder
        if page.after:
            shutil.copytree(self.folder(page.after), folder)
        else:
            folder.mkdir(parents=True)
        printed = ""
        for block in page.blocks:
            if block.is_run:
                printed = self._run(block, folder, printed)
        return folder

    def _run(self, block: Block, folder: Path, printed: str) -> str:
        """Run one block after another one that printed something, and return its own output."""
        if block.language == "python":
            return run(self._warm.program(block.text), folder).stdout
        if block.language == "sh":
            return run(["bash", "-euo", "pipefail", "-c", block.text], folder, PATH=self._path).stdout
        if block.language.startswith("toml"):
            name = block.language.removeprefix("toml").strip() or "edge-embed.toml"
            (folder / name).write_text(block.text, encoding="utf-8")
        else:
            assert [line.rstrip() for line in printed.splitlines()] == block.text.splitlines()
        return printed
