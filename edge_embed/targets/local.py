"""Targets ``local`` and ``portable``: a process on this machine, with and without the operator library."""

import sys
import sysconfig
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from edge_embed.errors import EdgeEmbedError
from edge_embed.report.results.targets import Evidence, Problem
from edge_embed.runtime.extensions import get_extensions_path
from edge_embed.runtime.library import get_library_path
from edge_embed.targets.runner import RunnerModel, ThisMachine, runner_lacks, runner_model
from edge_embed.targets.target import NotRunError, RunOptions, Subject, Tokenizer


@dataclass(frozen=True)
class Local:
    """ONNX Runtime on this machine, through its C interface.

    Attributes:
        library: whether the operator library is registered.
    """

    library: bool
    evidence: Evidence = "executed-native"
    tokenizer: Tokenizer = "runs"

    @property
    def name(self) -> str:
        """Return the name on the command line."""
        return "local" if self.library else "portable"

    def lacks(self) -> list[Problem]:
        """List the missing files of this installation."""
        found = runner_lacks()
        if self.library:
            try:
                get_library_path()
            except EdgeEmbedError as error:
                found.append(Problem(str(error), "install edge-embed again (`make install` in a checkout)"))
        return found

    def prepare(self, subject: Subject, options: RunOptions) -> AbstractContextManager[RunnerModel]:
        """Prepare a run on this machine; nothing is copied.

        Raises:
            NotRunError: if the model has a tokenizer, and its library cannot be loaded without Python.
        """
        libraries = [get_library_path()] if self.library else []
        place = ThisMachine(subject.model, libraries)
        if subject.from_texts:
            place = ThisMachine(subject.model, [*libraries, get_extensions_path()], _python_library())
        return runner_model(subject.program.output_names, place)


def _python_library() -> Path:
    """Return libpython: the library of onnxruntime-extensions needs its symbols, although no Python code runs."""
    names = [str(sysconfig.get_config_var(name)) for name in ("LIBDIR", "INSTSONAME")]
    path = Path(*names)
    if sys.platform != "linux" or ".so" not in path.name or not path.is_file():
        raise NotRunError(
            f"the library of onnxruntime-extensions requires a shared libpython at {path}, which is missing"
        )
    return path
