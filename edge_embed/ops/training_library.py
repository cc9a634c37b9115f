"""The library of kernels for training and compression in C++ (runtime_ops/training/training.h), on float32 CPU tensors.

`serves` returns whether it computes with some tensors; otherwise their steps run in torch. Work is shared by threads:
its parts run side by side.
"""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache

import torch
from torch import Tensor, nn

from edge_embed.errors import EdgeEmbedError
from edge_embed.runtime.library import installed_library


@cache
def library() -> ctypes.CDLL | None:
    """Return the library, or None if it was not built: everything then runs in torch, more slowly."""
    try:
        return installed_library("edge_embed_training")
    except EdgeEmbedError:
        return None


def serves(*tensors: Tensor) -> bool:
    """Return whether the kernels support these tensors. While torch records its steps they do not: it must see them."""
    return are_plain(*tensors) and library() is not None


def are_plain(*tensors: Tensor) -> bool:
    """Return whether all tensors are float32 in CPU memory, and their numbers may decide what is computed."""
    is_recorded = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return not is_recorded and all(_is_plain(tensor) for tensor in tensors)


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor is float32 in CPU memory, and not a subclass or wrapper that only looks like it."""
    return (
        tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and type(tensor) in (Tensor, nn.Parameter)
        and not tensor.is_neg()
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def run_parts(run: Callable[[int], int], count: int) -> list[int]:
    """Return the statuses of ``run(0)`` to ``run(count - 1)``, which run side by side."""
    return [run(0)] if count == 1 else _side_by_side(run, count)


def _side_by_side(run: Callable[[int], int], count: int) -> list[int]:
    pool = _pool(os.getpid(), torch.get_num_threads())
    parts = [pool.submit(run, number) for number in range(count)]
    try:
        return [part.result() for part in parts]
    finally:
        wait(parts)  # also when interrupted: the parts use tensors of the caller


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return a persistent pool, as starting threads takes as long as a part. A forked process needs its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"training-{process}")
