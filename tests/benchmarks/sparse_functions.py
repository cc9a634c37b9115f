"""sparsemax and 1.5-entmax beside the functions of the package entmax, and beside softmax and a copy in torch.

``python tests/benchmarks/sparse_functions.py`` prints medians in microseconds on one thread, of rows of standard normal
scores. Functions run in turns: first in blocks of 20 calls, then single calls, each of which finds caches without its
numbers and memory that the others have returned.
"""

import statistics
import time
from collections.abc import Callable

import entmax
import torch
from torch import Tensor

import edge_embed

_SHAPES = (1, 4096), (8, 4096), (64, 4096), (1, 30_000), (16, 30_000), (4, 100_000)
_BLOCKS = (20, 12), (1, 60)  # calls in a turn, and turns
_INPUTS = 4
_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sparsemax": lambda x: edge_embed.sparsemax(x, -1),
    "its bisection": lambda x: entmax.sparsemax_bisect(x, -1),
    "its sort": lambda x: entmax.sparsemax(x, -1),
    "entmax15": lambda x: edge_embed.entmax15(x, -1),
    "its bisection 1.5": lambda x: entmax.entmax_bisect(x, 1.5, -1),
    "its sort 1.5": lambda x: entmax.entmax15(x, -1),
    "softmax": lambda x: torch.softmax(x, -1),
    "copy": torch.clone,
}


@torch.no_grad()
def main() -> None:
    """Print a row for each shape and way to take turns."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'shape, calls':20}" + "".join(f"{name:>18}" for name in _FUNCTIONS))
    for shape in _SHAPES:
        inputs = [torch.randn(shape) for _ in range(_INPUTS)]
        for calls, turns in _BLOCKS:
            times: dict[str, list[float]] = {name: [] for name in _FUNCTIONS}
            for _ in range(turns):
                for name, function in _FUNCTIONS.items():
                    times[name] += [_microseconds(function, inputs[call % _INPUTS]) for call in range(calls)]
            medians = "".join(f"{statistics.median(each):18.1f}" for each in times.values())
            print(f"{shape[0]:4} x {shape[1]:7,}, {calls:2}  {medians}", flush=True)


def _microseconds(function: Callable[[Tensor], Tensor], scores: Tensor) -> float:
    begin = time.perf_counter_ns()
    function(scores)
    return (time.perf_counter_ns() - begin) / 1e3


if __name__ == "__main__":
    main()
