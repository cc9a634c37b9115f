"""Capture of transformers of ``torch.nn`` whose mask is a tensor that the model creates or gets as input.

Without ``is_causal``, ``nn.TransformerEncoder`` and ``nn.TransformerDecoder`` compare the mask with a causal one to
select a faster kernel. Such a branch on values cannot be traced. The mask is applied either way, so the answer "not
known to be causal" gives the same outputs.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor
from torch.nn.modules import transformer


def _stated(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    return is_causal is True


@contextmanager
def masks_not_compared() -> Iterator[None]:
    """Prevent transformers of ``torch.nn`` from reading the values of their mask."""
    compare = transformer._detect_is_causal_mask
    transformer._detect_is_causal_mask = _stated
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = compare
