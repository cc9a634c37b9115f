"""Target ``onnxruntime-cuda``: ONNX Runtime's CUDA provider, on portable bodies or with our operators on the CPU.

Our operators have no GPU kernels. With ``:library`` they run on the processor inside a CUDA session, and ONNX Runtime
copies their inputs and outputs; these copies are counted in the optimised graph. Without ``:library`` the portable
bodies run on the GPU. Its Gather checks no ids: the result for an id out of range is undefined there. TF32 is off.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.report.results.targets import Evidence, Problem, TargetTimes
from edge_embed.runtime.library import get_library_path
from edge_embed.steps import seconds_of, step
from edge_embed.targets.target import Feeds, NotRunError, RunOptions, Subject, TargetRun, Tokenizer

_PROVIDER = "CUDAExecutionProvider"
_COPIES = ("MemcpyToHost", "MemcpyFromHost")
_FATAL_ONLY = 4  # errors come back as exceptions
_RUNS = "the model runs on the GPU"


@dataclass(frozen=True)
class CudaModel:
    """A session on a GPU.

    Attributes:
        session: runs on the GPU; operators without a GPU kernel run on the processor.
        output_names: names of the outputs, in order.
        create: seconds to create the session.
        copies: number of nodes that copy between processor and GPU.
    """

    session: ort.InferenceSession
    output_names: Sequence[str]
    create: float
    copies: int

    def run(self, cases: Sequence[Feeds], options: RunOptions) -> TargetRun:
        """Run all cases; times include the copies of inputs to the GPU and of outputs back."""
        first, *calls = (seconds_of(lambda: self._call(cases[0]), _RUNS) for _ in range(1 + options.iterations))
        outputs = []
        for feeds in cases:
            with step(_RUNS):
                outputs.append(self._call(feeds))
        versions = {"onnxruntime": ort.__version__}
        return TargetRun(outputs, versions, TargetTimes(self.create, first, tuple(calls)), {"copies": self.copies})

    def _call(self, feeds: Feeds) -> list[NDArray[Any]]:
        return [np.asarray(output) for output in self.session.run(list(self.output_names), dict(feeds))]


@dataclass(frozen=True)
class Cuda:
    """ONNX Runtime on a GPU.

    Attributes:
        argument: ``library`` to register the operator library, empty to run the portable bodies.
    """

    argument: str = ""
    evidence: Evidence = "executed-native"
    tokenizer: Tokenizer = "cannot run"

    def __post_init__(self) -> None:
        if self.argument not in ("", "library"):
            raise BadInputError(f"target: got {self.name!r}, expected onnxruntime-cuda or onnxruntime-cuda:library")

    @property
    def name(self) -> str:
        """Return the name on the command line."""
        return f"onnxruntime-cuda:{self.argument}".rstrip(":")

    def lacks(self) -> list[Problem]:
        """List ONNX Runtime for CUDA if it is missing; a missing GPU is found when a session is made."""
        if _PROVIDER in ort.get_available_providers():
            return []
        remedy = f"python -m pip install onnxruntime-gpu=={ort.__version__}, on a machine with an NVIDIA GPU"
        return [Problem(f"onnxruntime {ort.__version__} has no {_PROVIDER}", remedy)]

    @contextmanager
    def prepare(self, subject: Subject, options: RunOptions) -> Iterator[CudaModel]:
        """Create the session."""
        chosen = ort.SessionOptions()
        chosen.log_severity_level = _FATAL_ONLY
        chosen.intra_op_num_threads = options.threads
        if self.argument:
            chosen.register_custom_ops_library(str(get_library_path()))
        with tempfile.TemporaryDirectory() as folder:
            optimized = Path(folder) / "optimized.onnx"
            chosen.optimized_model_filepath = str(optimized)
            start = time.perf_counter()
            with step("a session on the GPU is made"):
                providers = [(_PROVIDER, {"use_tf32": "0"}), "CPUExecutionProvider"]
                session = ort.InferenceSession(str(subject.model), chosen, providers=providers)
            create = time.perf_counter() - start
            if _PROVIDER not in session.get_providers():
                raise NotRunError(f"ONNX Runtime {ort.__version__} found no usable GPU: see its CUDA requirements")
            copies = count_copies(optimized)
        yield CudaModel(session, subject.program.output_names, create, copies)


def count_copies(optimized: Path) -> int:
    """Return the number of nodes of an optimised graph that copy between processor and GPU, also in loops and branches.

    A node counts once, however often a loop runs it.
    """
    return _copies_of(onnx.load(optimized, load_external_data=False).graph)


def _copies_of(graph: onnx.GraphProto) -> int:
    inner = (body for node in graph.node for held in node.attribute for body in (held.g, *held.graphs))
    return sum(node.op_type in _COPIES for node in graph.node) + sum(map(_copies_of, inner))
