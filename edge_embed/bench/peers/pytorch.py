"""Peer torch: lookups in dense tables, and the arithmetic of ANT and TT with its operators."""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from edge_embed.bench.peers.peer import Answering, Bind, FunctionCalls, Peer
from edge_embed.bench.tables import BenchTable, LeftOutError
from edge_embed.bench.uses import Bag, BenchUse
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.tt import PackedTT
from edge_embed.validation.timing import Feeds


def _embedding(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    dense = torch.from_numpy(table.dense)

    def bind(feeds: Feeds, calls: int) -> Answering:
        out = torch.empty(len(feeds["ids"]), dense.shape[1])
        call = partial(torch.index_select, dense, 0, out=out)
        return FunctionCalls(_ids, call, feeds, calls)

    return bind


def _ids(feeds: Feeds) -> tuple[Tensor]:
    return (torch.from_numpy(feeds["ids"]),)


def _bags(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    assert isinstance(use, Bag)
    dense, mode = torch.from_numpy(table.dense), use.mode

    def call(ids: Tensor, offsets: Tensor) -> Tensor:
        return torch.nn.functional.embedding_bag(ids, dense, offsets, mode=mode, include_last_offset=True)

    def prepare(feeds: Feeds) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(feeds["ids"]), torch.from_numpy(feeds["offsets"])

    return lambda feeds, calls: FunctionCalls(prepare, call, feeds, calls)


def _anchors(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    """Compute a row of ANT as a bag of anchors with weights."""
    packed = table.packed
    assert isinstance(packed, PackedANT)
    anchors = torch.from_numpy(packed.anchors.astype(np.float32))  # [A, d]
    weights = packed.weights.astype(np.float32) * packed.weight_scale

    def prepare(feeds: Feeds) -> tuple[Tensor, Tensor, Tensor]:
        begins, ends = packed.row_offsets[feeds["ids"]], packed.row_offsets[feeds["ids"] + 1]
        offsets = np.concatenate(([0], np.cumsum(ends - begins)))  # [B + 1]
        entries = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], ends - begins)
        chosen = packed.anchor_ids[entries].astype(np.int64)
        return torch.from_numpy(chosen), torch.from_numpy(offsets), torch.from_numpy(weights[entries])

    def call(chosen: Tensor, offsets: Tensor, given: Tensor) -> Tensor:
        return torch.nn.functional.embedding_bag(
            chosen, anchors, offsets, mode="sum", per_sample_weights=given, include_last_offset=True
        )

    return lambda feeds, calls: FunctionCalls(prepare, call, feeds, calls)


def _products(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    """Compute rows of TT as products of slices, for all ids at once."""
    packed = table.packed
    assert isinstance(packed, PackedTT)
    shape = packed.shape
    if shape.ranks[0] != 1:
        raise LeftOutError("the table is a tensor ring, which needs a trace after the products")
    cores = [torch.from_numpy(core.astype(np.float32)) for core in packed.cores]

    def prepare(feeds: Feeds) -> tuple[Tensor, ...]:
        placed = feeds["ids"] if packed.row_order is None else packed.row_order[feeds["ids"]]
        return tuple(torch.from_numpy(digits) for digits in np.unravel_index(placed, shape.row_shape))

    def call(*digits: Tensor) -> Tensor:
        count = len(digits[0])
        state = cores[0].index_select(0, digits[0]).reshape(count, -1, shape.ranks[1])  # [B, J_1, R_1]
        for core, digit in zip(cores[1:], digits[1:], strict=True):
            _, before, columns, after = core.shape
            step = core.index_select(0, digit).reshape(count, before, columns * after)
            state = torch.bmm(state, step).reshape(count, -1, after)  # [B, J_1 ... J_k, R_k]
        return state.reshape(count, -1)

    return lambda feeds, calls: FunctionCalls(prepare, call, feeds, calls)


PEERS = (
    Peer(
        "torch embedding", "index_select of the float32 table with out=, as in torch's embedding", ("rows",), _embedding
    ),
    Peer("torch embedding_bag", "embedding_bag of the float32 table; the call allocates the result", ("bag",), _bags),
    Peer(
        "torch embedding_bag, ANT",
        "embedding_bag with weights; anchor ids and weights are gathered before; the call allocates the result",
        ("rows",),
        _anchors,
        methods=("ant",),
    ),
    Peer(
        "torch bmm, TT",
        "index_select of the cores and bmm; ids are split into digits before; the call allocates the results",
        ("rows",),
        _products,
        methods=("tt",),
    ),
)
