"""Two gloo processes that train one model: each runs the same lines and returns its variable `result`."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import edge_embed
from edge_embed.layers.regularization import regularization_loss

from ..forked import run_processes


def run_in_two_processes(lines: str, folder: Path) -> list[Any]:
    """Return the ``result`` of both processes; ``rank`` is 0 or 1, and their random numbers differ."""
    run_processes(_run_one, (lines, folder))
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]


def _run_one(rank: int, lines: str, folder: Path) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.manual_seed(rank)
    names = {
        "torch": torch,
        "edge_embed": edge_embed,
        "DistributedDataParallel": DistributedDataParallel,
        "regularization_loss": regularization_loss,
        "rank": rank,
    }
    exec(lines, names)
    torch.save(names["result"], folder / f"rank{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()
    os._exit(0)  # gloo's threads were seen to abort the interpreter's exit after the work was done
