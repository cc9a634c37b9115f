"""Target ``browser-webgpu``: onnxruntime-web with its WebGPU provider in headless Chromium.

Chromium takes the GPU of the machine, or emulates one on the processor (SwiftShader): the adapter that ran tells which.
ONNX Runtime runs nodes that WebGPU has no kernel for on the processor, without a word; that is right for integers of 64
bits, but a float32 product that ends up there is a failure. So each run is profiled: the profile names the provider and
the types of every node that ran.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edge_embed.report.results.targets import Evidence, Problem
from edge_embed.targets.runner import Ran, RunnerModel
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions, Subject, Tokenizer
from edge_embed.targets.web.browser import Tab, browser_lacks
from edge_embed.targets.web.package import WEBGPU, fetch_runtime, runtime_lacks

_FLAGS = ("--enable-unsafe-webgpu", "--enable-features=Vulkan", "--ignore-gpu-blocklist")
_PROVIDER = "WebGpuExecutionProvider"
_NO_FLOAT16 = "requires f16 but the device does not support it"
_COPIES = ("MemcpyToHost", "MemcpyFromHost")

# Operators whose nodes must run on WebGPU if they read and return float32.
CLAIMED = frozenset(
    "Add Ceil Concat Div Expand Gather GatherElements Gemm LayerNormalization Log MatMul Max Min Mul Pow ReduceL1 "
    "ReduceMean ReduceSum Relu Reshape ScatterElements ScatterND Sigmoid Slice Softmax Sub Tanh TopK Transpose "
    "Unsqueeze Where".split()
)


@dataclass(frozen=True)
class Node:
    """Node of a profile.

    Attributes:
        op_type: operator.
        inputs: types of its inputs, by their names in ONNX Runtime: ``float``, ``int64``.
        outputs: types of its outputs.
        provider: execution provider that ran it.
    """

    op_type: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    provider: str

    @property
    def is_on_webgpu(self) -> bool:
        """Return whether WebGPU ran it."""
        return self.provider == _PROVIDER

    @property
    def is_claimed(self) -> bool:
        """Return whether WebGPU has to run it."""
        return self.op_type in CLAIMED and "float" in self.inputs and "float" in self.outputs


def check_placement(nodes: Iterable[Node]) -> dict[str, int]:
    """Return how many nodes ran on WebGPU and on the processor, and how many copied between them.

    Raises:
        RunFailedError: if the processor ran a claimed node, or WebGPU ran none.
    """
    nodes = list(nodes)
    if fallen := sorted({node.op_type for node in nodes if node.is_claimed and not node.is_on_webgpu}):
        raise RunFailedError(f"WebGPU: the processor ran float32 nodes that WebGPU has to run: {', '.join(fallen)}")
    copies = sum(node.op_type in _COPIES for node in nodes)
    on_webgpu = sum(node.is_on_webgpu for node in nodes) - copies
    if not any(node.is_claimed for node in nodes):
        raise RunFailedError("WebGPU: got no float32 node that WebGPU has to run, expected at least one")
    return {"webgpu_nodes": on_webgpu, "cpu_nodes": len(nodes) - on_webgpu - copies, "copies": copies}


class GpuTab(Tab):
    """A page whose model runs on WebGPU."""

    def execute(self, folder: Path, options: RunOptions) -> Ran:
        """Run the job, and check where its nodes ran."""
        try:
            super().execute(folder, options)
        except RunFailedError as error:
            if _NO_FLOAT16 in str(error):
                raise NotRunError(
                    "the adapter has no shader-f16, which float16 tensors need: export float32"
                ) from error
            raise
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        counters = check_placement(Node(*node) for node in result["nodes"])
        return Ran(counters=counters, evidence="executed-emulated" if result["emulated"] else "executed-native")


@dataclass(frozen=True)
class BrowserWebGpu:
    """The WebGPU provider of ONNX Runtime in a browser; each result tells whether its GPU was a real one."""

    name: str = "browser-webgpu"
    evidence: Evidence = "executed-emulated"
    tokenizer: Tokenizer = "cannot run"

    def lacks(self) -> list[Problem]:
        """List Chromium if it is missing, and npm if the runtime is not in the cache."""
        return [*browser_lacks(), *runtime_lacks(WEBGPU)]

    @contextmanager
    def prepare(self, subject: Subject, options: RunOptions) -> Iterator[RunnerModel]:
        """Download the runtime, once."""
        runtime = fetch_runtime(options.time_limit, WEBGPU)
        tab = GpuTab(subject, runtime, build=WEBGPU, provider="webgpu", flags=_FLAGS)
        yield RunnerModel(subject.program.output_names, tab)
