"""Models of all methods on the targets of a GPU, validated as ``edge-embed validate --target`` does it."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import edge_embed
from edge_embed import workflow
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.validation.options import ValidationOptions
from tests.gpu.layers import LAYERS, ROWS, WIDTH, Tagger
from tests.gpu.table import Table, outcome


class Uses(nn.Module):
    """Lookup, mean, logits and top-k of one table."""

    def __init__(self, layer: CompressedEmbedding) -> None:
        super().__init__()
        self.layer = layer
        self.output = edge_embed.TiedOutput(layer)

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        """Return one output for each use."""
        rows = CompressedEmbedding.forward(self.layer, ids)
        state = rows.mean(1)
        values, best = self.output.topk(state, 5)
        return {"rows": rows, "logits": self.output(state), "values": values, "best": best}


class Bags(nn.Module):
    """Bags of one table."""

    def __init__(self, layer: CompressedEmbedding) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """Return bags [B, d]."""
        bags: Tensor = self.layer(ids, offsets)
        return bags


_IDS = (torch.tensor([[3, 1, 1999, 7], [5, 0, 6, 7]]),)
_FLAT = (torch.tensor([3, 1, 1999, 5, 2]), torch.tensor([0, 2]))
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    **{name: (lambda make=make: Uses(make()), _IDS) for name, make in LAYERS.items() if "bag" not in name},
    **{f"{name}, frozen in float16": (lambda name=name: Uses(LAYERS[name]().freeze(value_type="float16")), _IDS)
       for name in ("DPQ, SX", "ANT", "TT")},
    "DPQ, frozen in int8": (lambda: Uses(LAYERS["DPQ, SX"]().freeze(value_type="int8")), _IDS),
    "DPQ bag": (lambda: Bags(LAYERS["DPQ bag"]()), _FLAT),
    "ANT bag": (lambda: Bags(edge_embed.ANTEmbeddingBag(ROWS, WIDTH, 40, mode="sum")), _FLAT),
    "TT bag": (lambda: Bags(edge_embed.TTEmbeddingBag(ROWS, WIDTH, 16, mode="max")), _FLAT),
    "DPQ and a GRU": (Tagger, (torch.tensor([[3, 1, 699], [5, 0, 6]]),)),
}  # fmt: skip


def targets(names: Sequence[str], folder: Path) -> Table:
    """Validate every model on every target."""
    columns = ["model", *(column for name in names for column in (name, "call, ms", "copies"))]
    rows = [[name, *_validated(name, names, folder)] for name in MODELS]
    return Table("Exported models on targets: largest error beside the training form", columns, rows)


def _validated(name: str, names: Sequence[str], folder: Path) -> list[str]:
    make, example = MODELS[name]
    results: list[str] = []

    def run() -> str:
        torch.manual_seed(0)
        path = edge_embed.save(make().eval(), folder / "model.pt", example, force=True)
        program = workflow.load(path)
        workflow.export(program, "onnx", folder / "model.onnx", force=True)
        options = ValidationOptions(iterations=10, targets=tuple(names))
        for one in workflow.validate(program, folder / "model.onnx", options=options).targets:
            errors = [each.max_abs_error for each in one.outputs if each.max_abs_error is not None]
            shown = f"{one.status}, {max(errors):.1e}" if errors else one.status
            passed = one.status == "passed"
            results.append(shown if passed else f"FAILED: {shown}: {one.detail:.160}")
            results.append(one.times.milliseconds()[2] if one.times else "")
            results.append(str(one.counters.get("copies", "")))
        return "ran"

    ran = outcome(run)
    return results if ran == "ran" else [ran, *[""] * (3 * len(names) - 1)]


@dataclass(frozen=True)
class WrongIds:
    """Ways to look up ids out of range, each in a process of its own: a failed assertion ends CUDA for a process."""

    device: str
    model: Path

    def table(self) -> Table:
        """Look up id n, and id -1, in each way."""
        ways = [(way, wrong) for way in _WAYS for wrong in (ROWS, -1)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda case: outcome(lambda: self._run(*case)), ways))
        rows = [[way, str(wrong), each] for (way, wrong), each in zip(ways, found, strict=True)]
        return Table(f"Ids out of range, in a table of {ROWS} rows", ["way", "id", "outcome"], rows)

    def _run(self, way: str, wrong: int) -> str:
        command = [sys.executable, "-m", "tests.gpu.wrong_ids", way, str(wrong), self.device, str(self.model)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return ran.stdout.strip() or f"ends with code {ran.returncode}: {ran.stderr.strip().splitlines()[-1:]!s:.160}"


_WAYS = ("nn.Embedding", "layer in training", "frozen layer", "onnxruntime", "onnxruntime:library")


def wrong_ids(device: str, folder: Path) -> Table:
    """Export a model and look up ids out of range in it and in layers."""
    torch.manual_seed(0)
    path = folder / "rows.onnx"
    program = workflow.load(LAYERS["DPQ, SX"]().eval(), _IDS)
    workflow.export(program, "onnx", path, force=True)
    return WrongIds(device, path).table()
