"""Error of a failed command as its user reads it: one line."""

import re

from click.testing import Result

_PROGRESS = re.compile(r".*:.* after \d+ (s|min)\b.*")  # of a command that takes long, as on a busy machine


def error_line(result: Result) -> str:
    """Return the message of a command that failed without a traceback; it is the only line besides the usage."""
    # CliRunner keeps an exception that no command handles. The user would get its traceback, which stderr here lacks.
    assert isinstance(result.exception, SystemExit), result.exception
    *others, line = result.stderr.splitlines()
    usage = [other for other in others if not _PROGRESS.fullmatch(other)]
    assert not usage or (usage[0].startswith("Usage: ") and usage[-2].startswith("Try ")), result.stderr
    start, message = line[:7], line[7:]
    assert start == "Error: ", result.stderr
    return message
