"""Standard streams as a command may find them: closed, with a reader that goes, of few letters.

    edge-embed inspect model.onnx | head -1       the reader goes: the rest is for nobody, and is no error
    edge-embed export model.pt ... >&-            nobody listens: the file is written all the same

The exit code stays that of the work. A full disk behind standard output is an error as ever; behind standard error it
is none, as there is nowhere to tell it. What a stream's encoding has no letter for, and bytes of file names that are no
text, are shown as escapes.
"""

import io
import os
import sys
from contextlib import suppress
from typing import Any

_OUTPUT = 1


def open_streams() -> None:
    """Make the streams of this process bear all of that; once, before anything is printed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:  # else the next file that is opened would take its number, and what is printed there
            _to_nowhere(number)
        if number:
            setattr(sys, name, _text(number, getattr(sys, name)))


class _Stream(io.FileIO):
    """A descriptor that leads nowhere once its reader has gone."""

    def write(self, data: Any, /) -> int:
        """Write, or seem to."""
        try:
            return super().write(data)
        except OSError as error:
            if self.fileno() == _OUTPUT and not isinstance(error, BrokenPipeError):
                raise
            _to_nowhere(self.fileno())
            return super().write(data)


def _text(number: int, given: io.TextIOWrapper | None) -> io.TextIOWrapper:
    encoding = "utf-8" if given is None else given.encoding
    if given is not None:
        with suppress(OSError):
            given.flush()
    file = io.BufferedWriter(_Stream(number, "w", closefd=False))
    return io.TextIOWrapper(
        file, encoding, "backslashreplace", line_buffering=number == 2 or (given is not None and given.line_buffering)
    )


def _to_nowhere(number: int) -> None:
    opened = os.open(os.devnull, os.O_RDWR)
    if opened == number:
        os.set_inheritable(number, True)  # processes that are started have it too
    else:
        os.dup2(opened, number)
        os.close(opened)
