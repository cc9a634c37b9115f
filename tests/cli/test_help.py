"""``--help``: texts are complete, options are in sections, and the examples are valid commands."""

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from edge_embed.cli import main
from edge_embed.cli.help import HelpCommand

SECTIONED = [name for name, command in main.commands.items() if isinstance(command, HelpCommand)]


def options_of(command):
    return {parameter.name: parameter.opts[0] for parameter in command.params if isinstance(parameter, click.Option)}


def test_summaries_of_commands_are_complete_at_80_columns():
    shown = CliRunner().invoke(main, ["--help"], terminal_width=80).output
    listed = shown.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == sorted(main.commands)
    assert all(re.fullmatch(r"  \w+ +[A-Z][^.]*\.", line) for line in listed)


def test_commands_with_more_than_eight_options_have_sections_and_examples():
    for name, command in main.commands.items():
        if len(options_of(command)) > 8:
            assert command.sections, name
            assert command.examples, name


@pytest.mark.parametrize("name", SECTIONED)
def test_sections_list_each_option_once(name):
    command = main.commands[name]
    options = options_of(command)
    shown = CliRunner().invoke(main, [name, "--help"], terminal_width=80).output
    for title, names in command.sections.items():
        below = shown.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert sorted(listed(below)) == sorted(options[name] for name in names)
    assert sorted(listed(shown)) == sorted([*options.values(), "--help"])


def listed(shown):
    return re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, re.MULTILINE)


@pytest.mark.parametrize("name", SECTIONED)
def test_examples_parse_and_are_lines_of_help(name):
    shown = CliRunner().invoke(main, [name, "--help"], terminal_width=40).output
    assert main.commands[name].examples
    for example in main.commands[name].examples:
        assert f"\n  edge-embed {example}\n" in shown
        word, *arguments = shlex.split(example)
        assert word == name
        main.commands[name].make_context(name, arguments)  # raises for unknown options and wrong values


def test_completion_lists_commands_and_options():
    for words, at, wanted in (("edge-embed val", 1, "validate"), ("edge-embed compress --num-c", 2, "--num-codes")):
        environment = {"_EDGE_EMBED_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        shown = CliRunner().invoke(main, prog_name="edge-embed", env=environment).output
        assert f"plain,{wanted}" in shown.split()


@pytest.mark.parametrize("folder", [".", ".."])
def test_export_of_folder_without_name_asks_for_output(folder):
    done = CliRunner().invoke(main, ["export", folder, "--target", "onnx"])
    assert done.exit_code == 2
    assert "got no name for the output file: give --output FILE.onnx" in done.output
