"""Sentences of documents, docstrings and help texts, with the place of each.

Code, tables, links' targets and formulas are no prose and are left out; a heading or an item of a list is a sentence.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.contract.message_templates import message_lines

ROOT = Path(__file__).parents[2]
CODE = "<code>"  # stands in a sentence for a code span

_MARKDOWN = MarkdownIt("commonmark").enable("table")
_SECTIONS = ("Args:", "Attributes:", "Raises:", "Returns:", "Yields:", "Example:", "Examples:", "Note:")


@dataclass(frozen=True)
class Sentence:
    """One sentence, heading or item.

    Attributes:
        place: file and line, or the command whose help it is in.
        text: its words; code spans are replaced by `CODE`.
        is_first: whether a docstring or a help text begins with it.
    """

    place: str
    text: str
    is_first: bool = False


def tracked(*patterns: str) -> list[Path]:
    """Files under version control, and new ones that are not ignored, by patterns of git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in listed if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]


def split_sentences(text: str) -> list[str]:
    """Split a paragraph after full stops, colons, semicolons and question marks that white space follows."""
    plain = re.sub(r"``.+?``|`[^`]+`", CODE, " ".join(text.split()))
    return [part for part in re.split(r"(?<=[.!?:;])\)?\s+(?=[\w<(\"'*_])", plain) if part]


def of_messages() -> Iterator[Sentence]:
    """Yield the sentences of errors and warnings, without the names of arguments that they begin with."""
    for line in message_lines():
        kind, _, text = line.partition(": ")
        plain = re.sub(r"^(?:[\w-]+|\{\}): ", "", re.sub(r"\(([^()|]*)\|[^()]*\)", r"\1", text))
        for sentence in split_sentences(plain):
            yield Sentence(f"message of {kind}", sentence)


def of_document(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a Markdown file."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"\A---\n.*?\n---\n", lambda front: "\n" * front[0].count("\n"), text, flags=re.DOTALL)
    in_table = False
    for token in _MARKDOWN.parse(text):
        in_table = token.type == "table_open" or (in_table and token.type != "table_close")
        if token.type == "inline" and not in_table:
            line = (token.map or [0])[0] + 1
            for sentence in split_sentences(_words(token)):
                yield Sentence(f"{path.relative_to(ROOT)}:{line}", sentence)


def _words(token: Token) -> str:
    """Words of a paragraph: code spans as `CODE`, of links their text."""
    shown = {"code_inline": lambda _: CODE, "softbreak": lambda _: " ", "text": lambda child: child.content}
    return "".join(shown[child.type](child) for child in token.children or [] if child.type in shown)


def of_docstrings(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of the docstrings of a Python file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        is_documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_documented and (docstring := ast.get_docstring(node)):
            place = f"{path.relative_to(ROOT)}:{node.body[0].lineno}"
            for number, sentence in enumerate(_of_docstring(docstring)):
                yield Sentence(place, sentence, number == 0)


def _of_docstring(docstring: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", docstring):
        prose = []
        for line in paragraph.splitlines():
            if item := re.match(r"\s+\**(\w+(?:, \w+)*):\s(.*)", line):  # an argument, an attribute or an error
                yield from split_sentences(" ".join(prose))
                prose = [item[2]]
            elif line.strip() in _SECTIONS or re.match(r"\s*[|>]", line):
                yield from split_sentences(" ".join(prose))
                prose = []
            else:
                prose.append(line)
        is_formula = all(line.startswith("    ") for line in paragraph.splitlines()) and len(prose) == len(
            paragraph.splitlines()
        )
        if not is_formula:
            yield from split_sentences(" ".join(prose))


def of_command(name: str, command: click.Command) -> Iterator[Sentence]:
    """Yield the sentences of the help of a command, of its options and of its subcommands."""
    for number, sentence in enumerate(split_sentences(command.help or "")):
        yield Sentence(f"{name} --help", sentence, number == 0)
    for parameter in command.params:
        for sentence in split_sentences(getattr(parameter, "help", None) or ""):
            yield Sentence(f"{name} {parameter.opts[0]}", sentence)
    for subcommand in getattr(command, "commands", {}).values():
        yield from of_command(f"{name} {subcommand.name}", subcommand)


def names_of_tests(path: Path) -> Iterator[tuple[str, str]]:
    """Yield place and name of the test functions of a Python file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield f"{path.relative_to(ROOT)}:{node.lineno}", node.name
