"""Conversion of tensor-train and tensor-ring cores from the layouts of other libraries.

An id has the digits i_1 ... i_N, a column the digits j_1 ... j_N. Libraries differ in the axes of a core and in the
most significant digit:

    order           a core is               id                      column
    edge-embed      [I, R, J, R']           (i_1 I_2 + i_2) I_3 ... (j_1 J_2 + j_2) J_3 ...
    paper           [R, I, J, R']           i_1 + I_1 (i_2 + ...    j_1 + J_1 (j_2 + ...
    tt-pytorch      [R, I, J, R']           (i_1 I_2 + i_2) I_3 ... (j_1 J_2 + j_2) J_3 ...
    tt-pytorch-rows [R, I, J, R']           i_1 + I_1 (i_2 + ...    (j_1 J_2 + j_2) J_3 ...
    tltorch         [R, I, J, R']           (i_1 I_2 + i_2) I_3 ... (j_1 J_2 + j_2) J_3 ...
    fbtt            [1, I, R J R'] or [I, R J R']  (i_1 I_2 + i_2) I_3 ... (j_1 J_2 + j_2) J_3 ...
    hetu            [I, R J R']             i_1 + I_1 (i_2 + ...    (j_1 J_2 + j_2) J_3 ...

``paper`` is "Tensorized Embedding Layers for Efficient Model Compression" (ICLR 2020 submission), eq. (1) and the
bijections of appendix A. ``tt-pytorch`` is `TTEmbedding` of the authors' t3nsor as released, which selects rows of the
full matrix. ``tt-pytorch-rows`` is an earlier version, which gathers rows by ``ind2sub``. ``tltorch`` is the BlockTT of
`FactorizedEmbedding`, ``fbtt`` one table of `TTEmbeddingBag` of FBTT-Embedding, and ``hetu`` its
`TensorTrainEmbedding`.

If both digit orders are reversed, the chain of cores is reversed: G_1 ... G_N = (G_N^T ... G_1^T)^T. If only the digits
of ids are reversed, our cores need an order of rows to hold the same table, at 4 bytes a row.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from edge_embed.errors import BadInputError, suggested

CoreOrder = Literal["edge-embed", "paper", "tt-pytorch", "tt-pytorch-rows", "tltorch", "fbtt", "hetu"]


class _Layout(NamedTuple):
    """Layout of the cores of a library.

    Attributes:
        axes: axes of a core: I, R, J and R' in some order, the last three possibly as one axis.
        first_row_digit_is_least: whether i_1 is the least significant digit of an id.
        first_column_digit_is_least: whether j_1 is the least significant digit of a column.
    """

    axes: str
    first_row_digit_is_least: bool = False
    first_column_digit_is_least: bool = False


_LAYOUTS: dict[CoreOrder, _Layout] = {
    "edge-embed": _Layout("I, R, J, R'"),
    "paper": _Layout("R, I, J, R'", True, True),
    "tt-pytorch": _Layout("R, I, J, R'"),
    "tt-pytorch-rows": _Layout("R, I, J, R'", True),
    "tltorch": _Layout("R, I, J, R'"),
    "fbtt": _Layout("I, R J R'"),
    "hetu": _Layout("I, R J R'", True),
}


def own_cores(cores: Sequence[Tensor], order: CoreOrder, col_shape: Sequence[int] | None) -> list[Tensor]:
    """Return cores [I, R, J, R'] of the same table, up to the order of its rows (`row_places`).

    Args:
        cores: cores of a library.
        order: name of the library's layout.
        col_shape: J_1 ... J_N if cores of ``order`` have two axes, else None.

    Raises:
        BadInputError: if the order is unknown, or cores have other axes or sizes that do not fit each other.
    """
    if order not in _LAYOUTS:
        expected = f"{suggested(str(order), _LAYOUTS)}expected one of {', '.join(get_args(CoreOrder))}"
        raise BadInputError(f"order: got {order!r:.80}, {expected}")
    layout = _LAYOUTS[order]
    is_flat = has_flat_cores(order)
    if is_flat != (col_shape is not None):
        got = f"got {col_shape!r:.80} with order {order!r}"
        expected = "J_1 ... J_N, which its cores do not contain" if is_flat else "none: its cores contain it"
        raise BadInputError(f"col_shape: {got}, expected {expected}")
    if is_flat and col_shape is not None:
        cores = _unfolded(cores, order, col_shape)
    _check_axes(cores, order, 4, layout.axes)
    if layout.axes.startswith("R"):
        cores = [core.transpose(0, 1) for core in cores]
    if layout.first_column_digit_is_least:
        cores = [core.transpose(1, 3) for core in reversed(cores)]
    return list(cores)


def has_flat_cores(order: CoreOrder) -> bool:
    """Return whether cores have two axes. Their ranks are derived from R_0 = 1, as such a library has only trains."""
    return order in _LAYOUTS and _LAYOUTS[order].axes.count(",") == 1


def row_places(row_shape: Sequence[int], order: CoreOrder) -> Tensor | None:
    """Return for each id its row in `own_cores`, int64 [I_1 ... I_N], or None if that is the id itself."""
    layout = _LAYOUTS[order]
    if layout.first_row_digit_is_least == layout.first_column_digit_is_least:
        return None
    ids = torch.arange(math.prod(row_shape)).reshape(*reversed(row_shape)).permute(*reversed(range(len(row_shape))))
    places = torch.empty(ids.numel(), dtype=torch.int64)
    places[ids.flatten()] = torch.arange(ids.numel())
    return places


def _unfolded(cores: Sequence[Tensor], order: CoreOrder, col_shape: Sequence[int]) -> list[Tensor]:
    """Reshape [I, R J R'] or [1, I, R J R'] to [I, R, J, R']; the first R is 1, each R' is the next R."""
    if len(col_shape) != len(cores):
        raise BadInputError(f"col_shape: got {len(col_shape)} numbers for {len(cores)} cores, expected one for each")
    single = [core.squeeze(0) if core.ndim == 3 and len(core) == 1 else core for core in cores]
    if any(core.ndim == 3 for core in single):
        got = f"cores: got shapes {[list(core.shape) for core in cores]}"
        raise BadInputError(
            f"{got}, expected those of one table with order {order!r}; give [core[t] for core in cores]"
        )
    _check_axes(single, order, 2, "I, R J R'")
    unfolded, rank = [], 1
    for k, (core, columns) in enumerate(zip(single, col_shape, strict=True)):
        step = rank * columns
        if step < 1 or core.shape[1] % step:
            got = f"core {k} has {core.shape[1]} numbers per row, and R J is {rank} x {columns}"
            raise BadInputError(f"col_shape: got {list(col_shape)}: {got}, expected a multiple, R J R'")
        unfolded.append(core.unflatten(1, (rank, columns, -1)))
        rank = core.shape[1] // step
    return unfolded


def _check_axes(cores: Sequence[Tensor], order: CoreOrder, count: int, axes: str) -> None:
    if not all(core.ndim == count for core in cores):
        raise BadInputError(
            f"cores: got shapes {[list(core.shape) for core in cores]}, expected [{axes}] each with order {order!r}"
        )
