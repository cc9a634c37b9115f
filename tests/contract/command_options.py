"""Lines of all arguments and options of the commands, without the prose of ``--help``."""

from collections.abc import Iterator
from typing import Any

import click

from edge_embed.cli import main


def command_lines() -> Iterator[str]:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        yield from (f"{name} {_parameter(parameter)}" for parameter in command.params)


def _parameter(parameter: click.Parameter) -> str:
    """Return the line of a parameter; omitted properties have click's defaults."""
    words = ["/".join(filter(None, (" ".join(parameter.opts), " ".join(parameter.secondary_opts))))]
    if isinstance(parameter, click.Argument):
        words = [f"argument {parameter.name}"]
    words.append(f"{_type(parameter.type)}{f' nargs={parameter.nargs}' if parameter.nargs != 1 else ''}")
    words += [
        flag for flag in ("required", "multiple", "is_flag", "count", "hidden") if getattr(parameter, flag, False)
    ]
    default = parameter.to_info_dict()["default"]
    words.append(f"default={'a function' if callable(default) else repr(default)}")
    if parameter.envvar:
        words.append(f"envvar={parameter.envvar}")
    return ", ".join(words)


def _type(kind: click.ParamType) -> str:
    """Return the name of a type with its limits."""
    limits: dict[str, Any] = {
        key: value
        for key, value in kind.to_info_dict().items()
        if key not in ("param_type", "name") and value not in (None, False)
    }
    shown = " ".join(f"{key}={'|'.join(value) if key == 'choices' else value}" for key, value in limits.items())
    return f"{kind.name}({shown})" if shown else str(kind.name)
