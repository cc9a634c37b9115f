"""Target ``node``: onnxruntime-web under Node.js."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edge_embed.report.results.targets import Evidence, Problem
from edge_embed.targets.process import run_program
from edge_embed.targets.runner import Ran, RunnerModel
from edge_embed.targets.target import RunFailedError, RunOptions, Subject, Tokenizer
from edge_embed.targets.web.job import WebPlace, write_job
from edge_embed.targets.web.package import NODE_ENTRY, SCRIPTS, fetch_runtime, lacks_program, runtime_lacks


class NodeProcess(WebPlace):
    """A process of Node.js."""

    def execute(self, folder: Path, options: RunOptions) -> Ran:
        """Run the job in a process."""
        write_job(folder, self.subject, options)
        command: list[str | Path] = ["node", SCRIPTS / "node.mjs", self.runtime / NODE_ENTRY, folder]
        result, error = folder / "result.json", folder / "error"
        # Node.js is not awaited: before it ends, it compiles for seconds all that the engine did not need.
        run_program(command, options.time_limit, what="node", until=lambda: result.exists() or error.exists())
        if error.exists():
            raise RunFailedError(error.read_text(encoding="utf-8"))
        return Ran()


@dataclass(frozen=True)
class Node:
    """The WebAssembly engine of ONNX Runtime, without a browser around it."""

    name: str = "node"
    evidence: Evidence = "executed-native"
    tokenizer: Tokenizer = "cannot run"

    def lacks(self) -> list[Problem]:
        """List Node.js if it is missing, and npm if the runtime is not in the cache."""
        return [*lacks_program("node", "nodejs"), *runtime_lacks()]

    @contextmanager
    def prepare(self, subject: Subject, options: RunOptions) -> Iterator[RunnerModel]:
        """Download the runtime, once."""
        yield RunnerModel(subject.program.output_names, NodeProcess(subject, fetch_runtime(options.time_limit)))
