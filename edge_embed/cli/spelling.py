"""Options in messages, spelled as on the command line: errors contain their names in Python.

Only unambiguous names are replaced: a name in backticks, a name at the start of a message, and a name with an
underscore that is no part of a path, a quotation or an argument.
"""

import re

import click


def spelled(message: str, command: click.Command) -> str:
    """Return a message with ``--num-codes`` for the ``num_codes`` of a command."""
    options = _options(command)
    names = "|".join(map(re.escape, options))
    long = "|".join(re.escape(name) for name in options if "_" in name) or "(?!)"
    message = re.sub(rf"`({names})`", lambda found: options[found[1]], message)
    message = re.sub(
        rf"^(table \S+: )?({names})(?=: got )", lambda found: f"{found[1] or ''}{options[found[2]]}", message
    )
    return re.sub(rf"(?<![\w./\\'\"=-])({long})(?![\w/\\'\"(=]|\.\w)", lambda found: options[found[1]], message)


def _options(command: click.Command) -> dict[str, str]:
    """Return spellings such as ``--tflite-size`` by the name in Python, ``tflite_sizes``, and by ``tflite_size``."""
    found: dict[str, str] = {}
    for option in command.params:
        if isinstance(option, click.Option) and option.name:
            spelling = max(option.opts, key=len)
            found |= {option.name: spelling, spelling.removeprefix("--").replace("-", "_"): spelling}
    return found
