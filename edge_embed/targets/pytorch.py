"""Targets ``torch-cpu`` and ``torch-cuda``: the training form itself, on the processor or on a GPU.

On a GPU, products of float32 are computed as such. By default cuDNN rounds their factors to TF32, 10 bits of mantissa.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from edge_embed.program.on_device import on_device
from edge_embed.program.program import Program, ProgramModule, array
from edge_embed.report.results.targets import Evidence, Problem, TargetTimes
from edge_embed.steps import seconds_of, step
from edge_embed.targets.target import Feeds, NotRunError, RunOptions, Subject, TargetRun, Tokenizer

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class TorchModel:
    """A program on a device."""

    module: ProgramModule
    program: Program
    device: Device

    def run(self, cases: Sequence[Feeds], options: RunOptions) -> TargetRun:
        """Run all cases."""
        inputs = [self._inputs(feeds) for feeds in cases]
        what = f"the training form runs on {self.device}"
        first, *calls = (seconds_of(lambda: self._call(inputs[0]), what) for _ in range(1 + options.iterations))
        outputs = []
        for values in inputs:
            with step(what):
                # Text outputs, of a file that was compressed in place, are arrays already.
                outputs.append([array(each.cpu() if isinstance(each, Tensor) else each) for each in self._call(values)])
        return TargetRun(outputs, _versions(self.device), TargetTimes(None, first, tuple(calls)))

    def _inputs(self, feeds: Feeds) -> list[Tensor]:
        return [torch.from_numpy(feeds[declared.name].copy()).to(self.device) for declared in self.program.inputs]

    @torch.no_grad()
    def _call(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        results = tuple(self.module(*inputs))
        if self.device == "cuda":
            torch.cuda.synchronize()
        return results


@dataclass(frozen=True)
class Torch:
    """The training form, in eval mode."""

    device: Device
    evidence: Evidence = "executed-native"
    tokenizer: Tokenizer = "is not used"

    @property
    def name(self) -> str:
        """Return the name on the command line."""
        return f"torch-{self.device}"

    def lacks(self) -> list[Problem]:
        """List the GPU, or torch for it, if it is missing."""
        if self.device == "cpu" or torch.cuda.is_available():
            return []
        return [
            Problem(f"torch {torch.__version__} found no GPU", "use a machine with a GPU, and torch built for CUDA")
        ]

    @contextmanager
    def prepare(self, subject: Subject, options: RunOptions) -> Iterator[TorchModel]:
        """Copy the weights to the device.

        Raises:
            NotRunError: if the model has text inputs, for which torch has no tensors.
        """
        if texts := [declared.name for declared in subject.program.inputs if declared.holds_texts]:
            raise NotRunError(f"torch does not support texts, as in input {', '.join(texts)}")
        module = subject.program.module
        if self.device == "cpu":
            yield TorchModel(module, subject.program, self.device)
            return
        with full_float32():
            yield TorchModel(on_device(module, torch.device(self.device)), subject.program, self.device)


@contextmanager
def full_float32() -> Iterator[None]:
    """Turn TF32 off while this context is active."""
    products = torch.backends.cuda.matmul
    before, products.fp32_precision = products.fp32_precision, "ieee"
    try:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            yield
    finally:
        products.fp32_precision = before


def _versions(device: Device) -> dict[str, str]:
    versions = {"torch": str(torch.__version__)}
    return versions if device == "cpu" else versions | {"gpu": torch.cuda.get_device_name()}
