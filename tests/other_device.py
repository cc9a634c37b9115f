"""A device of torch without hardware: tensors on ``other`` hold CPU tensors, and operators refuse to mix the two.

Code then takes the way that it takes on a GPU, with numbers that are those of the CPU. Host syncs are counted. Call
`register` in a process of its own: torch keeps such a device, and its autograd engine is to know it from the start.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

_aten = torch.ops.aten
_MOVES = {_aten._to_copy.default, _aten.copy_.default}
_SYNCS = {_aten._local_scalar_dense.default, _aten.nonzero.default, _aten._unique2.default, _aten.equal.default}
_FACTORIES = "arange arange.start arange.start_step empty.memory_format empty_strided".split()
_libraries: list[torch.library.Library] = []  # their kernels live as long as they do

syncs: Counter[str] = Counter()  # operators that a GPU makes the host wait for


class OtherTensor(Tensor):
    """A tensor on the device ``other``."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "OtherTensor":
        place = {"strides": held.stride(), "storage_offset": held.storage_offset(), "device": "other:0"}
        return Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, **place)

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = tree_leaves((args, kwargs))
        if func not in _MOVES and any(_is_on_cpu(each) and each.ndim for each in given):
            raise RuntimeError(f"{func}: got tensors on other and on cpu")
        to = torch.device(kwargs.get("device") or "other:0").type
        chosen = tree_leaves(args[1:2]) if "index" in func.__name__ else []
        masked = any(isinstance(each, Tensor) and each.dtype == torch.bool for each in chosen)
        if func in _SYNCS or masked or (func in _MOVES and to == "cpu"):
            syncs[func.__name__] += 1
        if "device" in kwargs:
            kwargs = {**kwargs, "device": "cpu"}
        found = func(*tree_map(cpu, args), **tree_map(cpu, kwargs))
        if func._schema.is_mutable:
            return None if found is None else kwargs.get("out", args[0])
        return tree_map(lambda each: OtherTensor(each) if to == "other" and _is_on_cpu(each) else each, found)


class _Backend(backend_registration._DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


def _is_on_cpu(value: Any) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, OtherTensor)


def cpu(value: Any) -> Any:
    """Return the CPU tensor that a tensor of ``other`` holds, and anything else unchanged."""
    return value.held if isinstance(value, OtherTensor) else value


def register() -> None:
    """Add the device ``other`` to torch."""
    backend_registration._setup_privateuseone_for_python_backend("other", _Backend())
    library, every = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    _libraries.extend((library, every))
    every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in _FACTORIES:
        library.impl(name, _factory(name), "PrivateUse1")
    library.impl("_copy_from", _copy_from, "PrivateUse1")


def _factory(name: str) -> Any:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(_aten, packet), overload or "default")
    return lambda *args, **kwargs: OtherTensor(operator(*args, **{**kwargs, "device": "cpu", "pin_memory": False}))


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    cpu(target).copy_(cpu(source))
    return target
