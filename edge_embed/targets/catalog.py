"""Catalog of all targets by their word on the command line: ``local``, ``arm64``, ``ssh:HOST``, ..."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_embed.errors import BadInputError, suggested
from edge_embed.report.results.targets import TargetInfo
from edge_embed.targets.adb import Adb
from edge_embed.targets.arm64 import CPUS, Arm64
from edge_embed.targets.cuda import Cuda
from edge_embed.targets.local import Local
from edge_embed.targets.pytorch import Torch
from edge_embed.targets.reference import Reference
from edge_embed.targets.ssh import Ssh
from edge_embed.targets.target import Target
from edge_embed.targets.tflite.runtimes import LITERT, TFLITE_RUNTIME
from edge_embed.targets.web.browser import Browser
from edge_embed.targets.web.node import Node
from edge_embed.targets.web.webgpu import BrowserWebGpu


@dataclass(frozen=True)
class Kind:
    """One kind of target.

    Attributes:
        what: description.
        make: makes the target from the text after the colon, which is empty without a colon.
        argument: name of the text after the colon: ``CPU``, ``HOST``; empty if none is allowed.
        needed: whether the argument is required.
        reads: kinds of files that it runs, by their word in `edge_embed.workflow.export`.
    """

    what: str
    make: Callable[[str], Target]
    argument: str = ""
    needed: bool = False
    reads: tuple[str, ...] = ("onnx",)

    def spelled(self, word: str) -> str:
        """Return the form on the command line."""
        if not self.argument:
            return word
        return f"{word}:{self.argument}" if self.needed else f"{word}[:{self.argument}]"


KINDS: dict[str, Kind] = {
    "local": Kind("ONNX Runtime with the operator library, in a process of its own", lambda _: Local(library=True)),
    "portable": Kind("ONNX Runtime with the portable bodies, in a process of its own", lambda _: Local(library=False)),
    "arm64": Kind(f"ONNX Runtime for arm64 with the operator library, emulated: {', '.join(CPUS)}", Arm64, "CPU"),
    "ssh": Kind("a Linux machine by ssh, with the operator library", Ssh, "HOST", needed=True),
    "adb": Kind(
        "an Android device by adb, with the operator library; not tested on a real device", Adb, "SERIAL", needed=True
    ),
    "reference": Kind("the reference evaluator of the onnx package", lambda _: Reference()),
    "node": Kind("onnxruntime-web (WebAssembly) under Node.js: the portable bodies", lambda _: Node()),
    "browser": Kind("onnxruntime-web (WebAssembly) in headless Chromium: the portable bodies", lambda _: Browser()),
    "browser-webgpu": Kind(
        "onnxruntime-web with WebGPU in headless Chromium: the portable bodies, on a GPU or emulated",
        lambda _: BrowserWebGpu(),
    ),
    "litert": Kind("LiteRT, the runtime of TFLite files", lambda _: LITERT, reads=("tflite",)),
    "tflite-runtime": Kind(
        "the last version of LiteRT under its old name", lambda _: TFLITE_RUNTIME, reads=("tflite",)
    ),
    "torch-cpu": Kind("the training form", lambda _: Torch("cpu"), reads=("onnx", "tflite")),
    "torch-cuda": Kind("the training form on a GPU", lambda _: Torch("cuda"), reads=("onnx", "tflite")),
    "onnxruntime-cuda": Kind("the portable bodies on a GPU, or our operators beside it", Cuda, "library"),
}


def make_target(text: str) -> Target:
    """Return the target that a text such as ``arm64:cortex-a53`` names.

    Raises:
        BadInputError: if no target has that name, or if an argument is missing or not allowed.
    """
    word, colon, argument = text.partition(":")
    kind = KINDS.get(word)
    if kind is None:
        known = ", ".join(kind.spelled(word) for word, kind in KINDS.items())
        raise BadInputError(f"target: got {text!r}, {suggested(word, KINDS)}expected one of {known}")
    if colon and not kind.argument:
        raise BadInputError(f"target: got {text!r}, expected {word!r} without a suffix")
    if not argument and kind.needed:
        raise BadInputError(f"target: got {text!r}, expected {kind.spelled(word)}")
    return kind.make(argument)


def make_targets(texts: Sequence[str], reads: str = "onnx") -> tuple[Target, ...]:
    """Return all named targets, each of them once.

    Args:
        texts: names on the command line.
        reads: the kind of file that the targets must run.

    Raises:
        BadInputError: as `make_target`, or one of them does not run such files.
    """
    for kind, text in ((KINDS.get(text.partition(":")[0]), text) for text in texts):
        if kind is not None and reads not in kind.reads:
            fitting = ", ".join(other.spelled(word) for word, other in KINDS.items() if reads in other.reads)
            got = f"got {text!r} for {' and '.join(kind.reads)} files"
            raise BadInputError(f"target: {got}, expected one for {reads}: {fitting}")
    return tuple(make_target(text) for text in dict.fromkeys(texts))


def list_targets() -> tuple[TargetInfo, ...]:
    """Return every kind of target, with the parts that it lacks here."""
    return tuple(_info(word, kind) for word, kind in KINDS.items())


def _info(word: str, kind: Kind) -> TargetInfo:
    target = kind.make(kind.argument if kind.needed else "")
    return TargetInfo(kind.spelled(word), kind.what, target.evidence, tuple(target.lacks()))
