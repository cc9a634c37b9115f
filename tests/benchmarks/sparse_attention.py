"""CPU time of sparse attention in inference beside that of softmax, one thread, all in one run in random order.

    python tests/benchmarks/sparse_attention.py [--keys 512] [--heads 8] [--width 64] [--zeros 0.9] [--rounds 60]

Queries are scaled until the share of zeros is the wanted one. Softmax runs with the same numbers: by
`F.scaled_dot_product_attention`, and as matmul, softmax, matmul.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from edge_embed.ops.attention import attention
from edge_embed.ops.entmax import entmax

ALPHAS = {"sparsemax": 2.0, "1.5-entmax": 1.5, "alpha = 1.75": 1.75}


def drawn(keys: int, heads: int, width: int) -> tuple[Tensor, ...]:
    """Return queries, keys and values [1, H, T, d] as a packed projection of a layer lays them out."""
    packed = torch.randn(1, keys, 3, heads, width, generator=torch.Generator().manual_seed(0))
    return tuple(each.transpose(1, 2) for each in packed.unbind(2))


def scaled(query: Tensor, key: Tensor, value: Tensor, alpha: float, zeros: float) -> tuple[Tensor, float]:
    """Return queries whose attention has the wanted share of zeros, and that share."""
    low, high = 0.0, 50.0
    for _ in range(30):
        middle = (low + high) / 2
        share = float((attention(query * middle, key, value, alpha, need_weights=True)[1] == 0).float().mean())
        low, high = (middle, high) if share < zeros else (low, middle)
    return query * high, share


def explicit(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attend with softmax, step by step."""
    scores = (query / query.shape[-1] ** 0.5) @ key.transpose(-1, -2)
    return scores.softmax(-1) @ value


def unfused(query: Tensor, key: Tensor, value: Tensor, alpha: float) -> Tensor:
    """Attend with entmax, step by step."""
    scores = (query / query.shape[-1] ** 0.5) @ key.transpose(-1, -2)
    return entmax(scores, alpha) @ value


def measured(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the medians of CPU time in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = random.Random(0)
    for _ in range(rounds):
        for name in order.sample(list(calls), len(calls)):
            begin = time.process_time()
            calls[name]()
            times[name].append(1e3 * (time.process_time() - begin))
    return {name: statistics.median(each) for name, each in times.items()}


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("keys", 512), ("heads", 8), ("width", 64), ("rounds", 60)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--zeros", type=float, default=0.9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    query, key, value = drawn(options.keys, options.heads, options.width)
    print("| activation | zeros | fused | of sdpa | of explicit softmax | of unfused |\n|---|---|---|---|---|---|")
    for name, alpha in ALPHAS.items():
        q, share = scaled(query, key, value, alpha, options.zeros)
        found = measured(
            {
                "fused": lambda q=q, alpha=alpha: attention(q, key, value, alpha),
                "sdpa": lambda q=q: F.scaled_dot_product_attention(q, key, value),
                "explicit": lambda q=q: explicit(q, key, value),
                "unfused": lambda q=q, alpha=alpha: unfused(q, key, value, alpha),
            },
            options.rounds,
        )
        ratios = " | ".join(f"{found['fused'] / found[each]:.2f}" for each in ("sdpa", "explicit", "unfused"))
        print(f"| {name} | {share:.1%} | {found['fused']:.1f} ms | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
