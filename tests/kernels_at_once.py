"""Replacement of the kernels of composite operators for torch.export, all kernels of an operator in one step."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch._C import DispatchKey
from torch._export.utils import _get_decomp_for_cia
from torch._higher_order_ops.utils import autograd_not_implemented
from torch._ops import OpOverload
from torch._subclasses import fake_impls
from torch.export import exported_program


@contextmanager
def override_decompositions(callables: Mapping[OpOverload, Callable[..., Any]]) -> Iterator[None]:
    """Do the work of torch's `_override_composite_implicit_decomp` without `py_impl`, which takes most of its time."""
    before = {operator: operator.py_kernels.copy() for operator in callables}
    for operator, decomposition in callables.items():
        composite = _get_decomp_for_cia(operator)
        own = operator.py_kernels
        kept = {key: kernel for key, kernel in own.items() if key != DispatchKey.CompositeImplicitAutograd}
        own |= _without_gradients(operator)
        own |= dict.fromkeys(exported_program._BACKEND_KEYS_TO_OVERRIDE, composite)
        own |= {**kept, DispatchKey.CompositeImplicitAutograd: decomposition}
        operator._dispatch_cache.clear()
        fake_impls.op_implementations_dict.setdefault(operator, functools.partial(_in_fake_mode, composite))
    try:
        yield
    finally:
        for operator, kernels in before.items():
            operator.py_kernels.clear()
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()
            fake_impls._deregister_op_impl(operator)


@functools.cache
def _without_gradients(operator: OpOverload) -> dict[DispatchKey, Callable[..., Any]]:
    refusal = autograd_not_implemented(operator, deferred_error=True)
    return dict.fromkeys(exported_program._AUTOGRAD_ALIAS_BACKEND_KEYS_TO_OVERRIDE, refusal)


def _in_fake_mode(composite: Callable[..., Any], mode: Any, _: OpOverload, *given: Any, **named: Any) -> Any:
    with mode:
        return composite(*given, **named)
