"""Two gloo processes that train one model: each runs the same lines, and what it calls `result` is what it found."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

_BEFORE = """
import os
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import edge_embed
from edge_embed.layers.regularization import regularization_loss

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
torch.manual_seed(rank)
"""
_AFTER = """
torch.save(result, sys.argv[3])
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # gloo's threads were seen to abort the interpreter's own way out, after the work was done
"""


def run_in_two_processes(lines: str, folder: Path) -> list[Any]:
    """The ``result`` of both; ``rank`` is 0 or 1, and their random numbers differ."""
    results = [folder / f"rank{rank}.pt" for rank in range(2)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-c", _BEFORE + lines + _AFTER]
    workers = [
        subprocess.Popen(
            [*command, str(rank), str(folder / "meeting"), str(result)],
            env=environment, stderr=subprocess.PIPE, text=True,
        )
        for rank, result in enumerate(results)
    ]  # fmt: skip
    errors = [worker.communicate(timeout=120)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(errors)
    return [torch.load(result, weights_only=True) for result in results]
