"""Matrices of a checkpoint that may be tables, judged by shape; only the model defines their use."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edge_embed.fitting.worth import WORTH
from edge_embed.inspection.report import DenseInfo
from edge_embed.program.find_weights import Checkpoint
from edge_embed.program.program import dtype_name
from edge_embed.program.without_weights import optimizer_states

_TALL = 4  # times as many rows as columns: layers inside a model have no more
_RATIO = 8  # compression ratio of the example in the note


def candidates(content: Any, checkpoint: Checkpoint) -> Iterator[DenseInfo]:
    """Yield matrices of floats with many rows and at least a twentieth of the weights; shared memory counts once.

    Args:
        content: content from `edge_embed.program.checkpoint.read_checkpoint`.
        checkpoint: the same content, opened by `edge_embed.program.find_weights.open_checkpoint`.
    """
    states = tuple(optimizer_states(content))
    weights = {
        path: tensor
        for path, tensor in checkpoint.tensors.items()
        if tensor.is_floating_point() and not (states and path.startswith(states))
    }
    numbers, seen = sum(tensor.numel() for tensor in weights.values()), set()
    for path, tensor in weights.items():
        if tensor.ndim != 2 or tensor.shape[0] <= _TALL * tensor.shape[1] or tensor.numel() < WORTH * numbers:
            continue
        if tensor.numel() and tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            rows, columns = tensor.shape
            yield DenseInfo(path.removesuffix(".weight"), rows, columns, dtype_name(tensor.dtype), tensor.nbytes)


def note_of(path: Path, found: list[DenseInfo]) -> str:
    """Return the command that compresses the matrices, and their bytes after it."""
    names = ", ".join(table.name for table in found)
    packed = sum(table.stored_bytes for table in found) // _RATIO
    return (
        f"possible tables by shape: {names}. If the model looks up their rows, they require {packed:,} bytes after "
        f"edge-embed compress {shlex.quote(str(path))} -o small.pt --ratio {_RATIO} --model package.module:function "
        "--input NAME:DTYPE[SIZES]"
    )
