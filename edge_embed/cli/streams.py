"""Standard streams in unusual states: closed, with a reader that ends, with an encoding of few letters.

    edge-embed inspect model.onnx | head -1       the reader ends: the rest is discarded without an error
    edge-embed export model.pt ... >&-            stdout is closed: the file is written all the same

The exit code is still that of the work. A full disk behind standard output is an error. Behind standard error it is
ignored, because it cannot be reported. Letters that a stream's encoding lacks, and bytes of file names that are no
text, are shown as escapes.
"""

import io
import os
import sys
from contextlib import suppress
from typing import Any

_OUTPUT = 1


def open_streams() -> None:
    """Prepare the streams of this process for these states; once, before anything is printed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:  # otherwise the next opened file would get its number, and the output
            _to_nowhere(number)
        if number:
            setattr(sys, name, _text(number, getattr(sys, name)))


class _Stream(io.FileIO):
    """A descriptor that discards its output once its reader has ended."""

    def write(self, data: Any, /) -> int:
        """Write, or discard the data."""
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
        os.set_inheritable(number, True)  # child processes inherit it
    else:
        os.dup2(opened, number)
        os.close(opened)
