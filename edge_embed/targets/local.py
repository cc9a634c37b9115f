"""``local`` and ``portable``: this machine, in a process of its own, with the operator library and without."""

from contextlib import AbstractContextManager
from dataclasses import dataclass

from edge_embed.errors import EdgeEmbedError
from edge_embed.report.targets import Evidence, Problem
from edge_embed.runtime.library import get_library_path
from edge_embed.targets.runner import RunnerModel, ThisMachine, runner_lacks, runner_model
from edge_embed.targets.target import RunOptions, Subject


@dataclass(frozen=True)
class Local:
    """ONNX Runtime on this machine, by its C interface.

    Attributes:
        library: whether the operator library is registered.
    """

    library: bool
    evidence: Evidence = "executed-native"

    @property
    def name(self) -> str:
        """As on the command line."""
        return "local" if self.library else "portable"

    def lacks(self) -> list[Problem]:
        """What is missing here."""
        found = runner_lacks()
        if self.library:
            try:
                get_library_path()
            except EdgeEmbedError as error:
                found.append(Problem(str(error), "install edge-embed again (`make install` in a checkout)"))
        return found

    def prepare(self, subject: Subject, options: RunOptions) -> AbstractContextManager[RunnerModel]:
        """Nothing has to be copied."""
        library = get_library_path() if self.library else None
        return runner_model(subject.program.output_names, ThisMachine(subject.model, library))
