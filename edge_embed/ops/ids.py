"""Checks of the ids of every embedding operator."""

import torch
from torch import Tensor

from edge_embed.errors import BadInputError, IdOutOfRangeError

_INDEX_DTYPES = (torch.int32, torch.int64)


def integer_ids(ids: Tensor, name: str = "ids") -> Tensor:
    """Return ids as int32 or int64, which every target supports; narrower and unsigned ones become int64.

    Raises:
        BadInputError: if ``ids`` are not integers; it calls them by their name.
    """
    if not isinstance(ids, Tensor):
        raise BadInputError(f"{name} must be a tensor, got a {type(ids).__name__}: give torch.tensor({name})")
    if ids.dtype.is_floating_point or ids.dtype.is_complex or ids.dtype == torch.bool:
        raise BadInputError(f"{name} must be integers, got {ids.dtype}: convert them with {name}.long()")
    return ids if ids.dtype in _INDEX_DTYPES else ids.long()


def check_id_range(ids: Tensor, num_embeddings: int, name: str = "id") -> None:
    """Raise `IdOutOfRangeError` if an id is below 0 or at least ``num_embeddings``; it calls the id by its name.

    Only CPU tensors are checked: on an accelerator this would wait for the device, whose own gather asserts instead.
    The check is skipped while ``torch.compile`` traces, where the values are unknown.
    """
    if torch.compiler.is_compiling() or ids.device.type != "cpu" or ids.numel() == 0:
        return
    while torch._C._functorch.is_functorch_wrapped_tensor(ids):  # under `torch.vmap`: ids of all samples
        ids = torch._C._functorch.get_unwrapped(ids)
    lowest, highest = (int(bound) for bound in ids.aminmax())
    if lowest < 0 or highest >= num_embeddings:
        wrong = lowest if lowest < 0 else highest
        raise IdOutOfRangeError(f"{name} {wrong} is out of range: expected 0 to {num_embeddings - 1}")


def repeated_id(ids: Tensor) -> int | None:
    """Return an id that is more than once among ids [r], or None."""
    each, counts = ids.unique(return_counts=True)
    return int(each[counts.argmax()]) if len(each) < len(ids) else None
