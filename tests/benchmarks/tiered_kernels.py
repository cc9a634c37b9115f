"""Speed of tiered tables beside the flat DPQ table of the same bytes, by the C interface.

    .venv/bin/python tests/benchmarks/tiered_kernels.py

Random tables of the plans that ``compress --method tiered`` makes at 8, 16 and 32 times. One thread; both tables run in
turns, in random order, on the same ids: all rows equally often, or by Zipf's law, with the frequent rows in the first
tier. Figures are medians of the wall time in nanoseconds a row, and their ratio.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from row_kernels import Native

import edge_embed
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.tiered import PackedTiered

ROUNDS = 60


def grouped(random: np.random.Generator, n: int, dim: int, codes: int, groups: int, dtype: str) -> PackedDPQ:
    """Return DPQ: ``groups`` codes a row, of ``codes`` vectors each."""
    values = random.standard_normal((groups, codes, dim // groups), np.float32).astype(dtype)
    return PackedDPQ.from_codes(random.integers(0, codes, (n, groups)), values)


def integers(random: np.random.Generator, n: int, dim: int, bits: int, dtype: str) -> PackedDPQ:
    """Return rows of integers with scales, as ``compress --method rows`` makes them."""
    half = 1 << bits - 1
    values = np.arange(-half, half).reshape(1, -1, 1).astype(dtype)
    scales = random.random(256, np.float32) + 0.5
    plain = PackedDPQ.from_codes(random.integers(0, 2 * half, (n, dim)), values)
    return PackedDPQ(plain.codes, plain.values, dim, None, None, random.integers(0, 256, n).astype(np.uint8), scales)


def tiered(random: np.random.Generator, tiers: list[PackedDPQ], order: np.ndarray) -> PackedTiered:
    """Return the table in which the ids ``order`` are the rows of the tiers, one tier after another."""
    tier_of = np.empty(len(order), np.int64)
    tier_of[order] = np.repeat(np.arange(len(tiers)), [tier.num_embeddings for tier in tiers])
    return PackedTiered.from_tiers(tuple(tiers), tier_of)


def tables(times: int, n: int, dim: int, dtype: str, order: np.ndarray) -> tuple[PackedTiered, PackedDPQ]:
    """Return the tiered and the flat table of one size."""
    random = np.random.default_rng(0)
    if times == 8:
        sizes = n // 16, n * 7 // 16
        tiers = [integers(random, sizes[0], dim, 8, dtype), integers(random, sizes[1], dim, 4, dtype)]
        tiers.append(grouped(random, n - sum(sizes), dim, 64, dim // 2, dtype))
        flat = grouped(random, n, dim, 256, dim // 2, "float32")
    elif times == 16:
        sizes = n // 20, n // 5
        tiers = [integers(random, sizes[0], dim, 8, dtype), integers(random, sizes[1], dim, 4, dtype)]
        tiers.append(grouped(random, n - sum(sizes), dim, 16, dim // 4, dtype))
        flat = grouped(random, n, dim, 16, dim // 2, "float32")
    else:
        sizes = n // 10, n // 4
        tiers = [integers(random, sizes[0], dim, 4, dtype), grouped(random, sizes[1], dim, 16, dim // 2, dtype)]
        tiers.append(grouped(random, n - sum(sizes), dim, 16, 1, dtype))
        flat = grouped(random, n, dim, 16, dim // 4, "float32")
    return tiered(random, tiers, order), flat


def measured(calls: list[Callable[[], object]], items: int) -> list[float]:
    random, taken = np.random.default_rng(0), [[] for _ in calls]
    for call in calls * 3:
        call()
    for _ in range(ROUNDS):
        for number in random.permutation(len(calls)):
            start = time.perf_counter_ns()
            calls[number]()
            taken[number].append(time.perf_counter_ns() - start)
    return [float(np.median(each)) / items for each in taken]


def shown(title: str, calls: list[Callable[[], object]], items: int) -> None:
    own, flat = measured(calls, items)
    print(f"{title:42} tiered {own:6.1f}  flat {flat:6.1f}  flat/tiered {flat / own:.2f}", flush=True)


def measure(times: int, n: int, dim: int, dtype: str, batch: int) -> None:
    random = np.random.default_rng(1)
    order = random.permutation(n)
    packed = tables(times, n, dim, dtype, order)
    print(f"{times}x {dtype}: {packed[0].nbytes:,} and {packed[1].nbytes:,} bytes, {packed[0].shape}")
    natives = [Native(table, str(edge_embed.get_library_path())) for table in packed]
    zipf = 1 / np.arange(1, n + 1)
    for name, ids in {
        "uniform": random.integers(0, n, batch),
        "Zipf": order[random.choice(n, batch, p=zipf / zipf.sum())],
    }.items():
        outs = [np.zeros((batch, dim), np.float32) for _ in natives]
        calls = [native.gather(ids, out) for native, out in zip(natives, outs, strict=True)]
        shown(f"{times}x {name}, rows", calls, batch)
        for length in (4, 16, 50):
            offsets = np.arange(0, batch + 1, length)
            some = ids[: offsets[-1]].copy()
            outs = [np.zeros((len(offsets) - 1, dim), np.float32) for _ in natives]
            calls = [native.bag(some, offsets, out) for native, out in zip(natives, outs, strict=True)]
            shown(f"{times}x {name}, bags of {length}", calls, len(some))
    for states in (1, 8):
        hidden = random.standard_normal((states, dim), np.float32)
        outs = [np.zeros((states, n), np.float32) for _ in natives]
        calls = [native.logits(hidden, out) for native, out in zip(natives, outs, strict=True)]
        shown(f"{times}x logits, {states} states", calls, n)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--times", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--dtype", nargs="+", default=["float32"])
    parser.add_argument("--batch", type=int, default=8192)
    options = parser.parse_args()
    print(f"edge-embed {edge_embed.__version__}, {options.rows:,} rows of {options.dim}")
    for dtype in options.dtype:
        for times in options.times:
            measure(times, options.rows, options.dim, dtype, options.batch)


if __name__ == "__main__":
    main()
