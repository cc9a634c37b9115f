"""Trial opening of an exported file before it gets its name, because a file that no runtime opens is useless.

A runtime can end the process that opens a file, so a separate process opens it.
"""

import importlib.util
import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.report.results.exported import Opened
from edge_embed.runtime.extensions import get_extensions_path, needs_extensions
from edge_embed.runtime.library import get_library_path
from edge_embed.steps import step_limit
from edge_embed.targets.process import finish_program
from edge_embed.targets.script import script_command
from edge_embed.targets.target import NotRunError
from edge_embed.validation import open_worker

_LONGEST = 600.0  # seconds, if steps have no limit
_LONGEST_MESSAGE = 500
_LEAVE_OUT = "use --no-open / open=False to write it without this check, for another runtime or a larger machine"
_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)\(\d+\)")
_NO_MEMORY = ("bad_alloc", "bad allocation", "Failed to allocate memory", "Cannot allocate memory")


@dataclass
class Opening:
    """Opens the files of one export or one compression.

    Attributes:
        target: ``onnx`` or ``tflite``.
        output: the path that messages name; the opened file lies elsewhere until it is complete.
        source: the file of the same runtime that the output was made from, if any.
        opened: the runtime that opened it and the ways, or the reason why it was not opened.
    """

    target: str
    output: Path
    source: Path | None = None
    opened: Opened = field(default_factory=Opened)

    def __call__(self, path: Path) -> None:
        """Open a file that is complete except for its name.

        Raises:
            BadInputError: the runtime cannot open it; the message states the runtime's message and the remedy.
        """
        try:
            found = self._outcome_of(path)
        except NotRunError as error:
            self.opened = Opened(reason=str(error))
            return
        for way, message in found["errors"].items():
            if message:
                raise self._refusal(f"{found['runtime']}, {way}", message.replace(f"{path.parent}/", ""))
        self.opened = Opened(found["runtime"], tuple(found["errors"]))

    def _outcome_of(self, path: Path) -> dict[str, Any]:
        arguments, reason = _ARGUMENTS[self.target](path)
        if reason:
            raise NotRunError(reason)
        return run_opens(self.target, arguments)

    def _refusal(self, where: str, text: str) -> BadInputError:
        message = " ".join(text.split())[:_LONGEST_MESSAGE].rstrip(".")
        made = "exported" if self.source is None else "compressed"
        return BadInputError(
            f"{self.output}: the {made} file cannot be opened ({where}): {message}. Nothing was written. "
            f"{self._remedy_of_source() or _remedy(message)}; {_LEAVE_OUT}"
        )

    def _remedy_of_source(self) -> str:
        """Return a remedy if the runtime refuses the source file too, so that the tables are not the cause."""
        with suppress(NotRunError):
            if self.source is not None and any(self._outcome_of(self.source)["errors"].values()):
                return f"{self.source} cannot be opened there either: convert it again if this is unexpected"
        return ""


def _remedy(message: str) -> str:
    if found := _NO_KERNEL.search(message):
        return (
            f"The runtime has no kernel for {found[1]} in this type: compute it in float32, such as after model.float()"
        )
    if any(sign in message for sign in _NO_MEMORY) or "SIGKILL" in message:
        return "The runtime ran out of memory: close other programs, or store weights in a separate file"
    if "signal" in message:
        return "The runtime itself crashed on this file: if the model has float16 layers, save it after model.float()"
    if "time limit" in message:
        return "Allow more time"
    return "Please report this model"


def run_opens(target: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the output of `open_worker`, run in a separate process.

    Raises:
        NotRunError: a process cannot be started here.
    """
    seconds = step_limit()
    limit = _LONGEST if seconds == math.inf else seconds
    done = finish_program(
        script_command(open_worker.__file__, target, *arguments), limit, what="the process that opens it"
    )
    if done.status == 0:
        found: dict[str, Any] = json.loads(done.printed.rpartition("\n")[2])
        return found
    return {"runtime": "a process of its own", "errors": {"opening it": done.ending}}


def _onnx(path: Path) -> tuple[list[str], str]:
    library = extensions = ""
    with suppress(EdgeEmbedError):  # an export does not need the library
        library = str(get_library_path())
    if needs_extensions(path):
        try:
            extensions = str(get_extensions_path())
        except EdgeEmbedError as error:
            return [], str(error)
    return [str(path), library, extensions], ""


def _tflite(path: Path) -> tuple[list[str], str]:
    reason = "" if importlib.util.find_spec("ai_edge_litert") else "the package ai-edge-litert is not installed"
    return [str(path)], reason


_ARGUMENTS: dict[str, Callable[[Path], tuple[list[str], str]]] = {"onnx": _onnx, "tflite": _tflite}
