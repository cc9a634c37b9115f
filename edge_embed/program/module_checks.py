"""Checks of a module before tracing, for parts that an exported file cannot contain."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.program.archive_weights import DTYPES
from edge_embed.program.program import dtype_name

_QUANTISED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.ao.nn.sparse.quantized",
              "torch.ao.quantization.fake_quantize", "torch.ao.quantization.observer")  # fmt: skip
_REAL_PAIR = (
    "store real and imaginary parts (cos and sin of rotary tables) as two real buffers, and expand "
    "products: (a + bi)(c + di) = (ac - bd) + (ad + bc)i"
)


def check_module(model: nn.Module) -> None:
    """Raise for a module that cannot be traced, or whose weights cannot be written.

    Raises:
        BadInputError: the message names the layer or the weight, and the remedy.
    """
    for name, module in model.named_modules():
        layer = f"layer {name!r}" if name else "the model"
        kind = type(module)
        if isinstance(module, torch.jit.ScriptModule):
            raise BadInputError(f"{layer} is TorchScript, expected the nn.Module before scripting or tracing")
        if kind.__module__.startswith(_QUANTISED):
            raise BadInputError(
                f"{layer} is quantised by torch.ao ({kind.__name__}): export the model without quantisation, then "
                "quantise the exported file with onnxruntime.quantization.quantize_dynamic"
            )
        limit = getattr(module, "max_norm", None)
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and limit is not None:
            raise BadInputError(
                f"{layer} has max_norm={limit}, so a lookup changes the table: set max_norm = None after training; "
                "rows without a lookup since their last step keep their norm"
            )
    for name, tensor in _tensors(model):
        if problem := _problem(tensor):
            raise BadInputError(f"{name} {problem}")


def check_inputs(leaves: list[Any]) -> None:
    """Raise for example inputs that an exported file cannot have.

    Raises:
        BadInputError: the message names what was given, and the remedy.
    """
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            if leaf.is_meta:
                raise BadInputError("an example input is on the meta device, without numbers: give one on the CPU")
            if problem := _problem(leaf):
                raise BadInputError(f"an example input {problem}")
        elif leaf is not None and not isinstance(leaf, int | float | str):
            remedy = ": give torch.from_numpy(it)" if type(leaf).__module__ == "numpy" else ""
            remedy = remedy or ": give its fields as separate inputs: tensors, numbers, strings or None"
            raise BadInputError(f"example_inputs contain a {type(leaf).__name__}{remedy}")


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for kind, tensors in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        yield from ((f"{kind} {name!r}", tensor) for name, tensor in tensors)


def _problem(tensor: Tensor) -> str:
    """Return the problem of a tensor and the remedy; empty without a problem."""
    kind = type(tensor)
    if nn.parameter.is_lazy(tensor):
        return "has no shape yet (lazy layer): call the model once on its example inputs first"
    if tensor.is_meta:
        return (
            "is on the meta device, without numbers: load the weights first, such as by "
            "model.load_state_dict(state, assign=True)"
        )
    if tensor.is_complex():
        return (
            f"contains complex numbers ({dtype_name(tensor.dtype)}), which exported files do not support: {_REAL_PAIR}"
        )
    if tensor.is_quantized:
        return f"is quantised ({dtype_name(tensor.dtype)}): use .dequantize()"
    if tensor.layout != torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        return f"has layout {layout}, expected a dense tensor: use .to_dense(), or pad it"
    if tensor.dtype not in DTYPES.values():
        known = ", ".join(dtype_name(dtype) for dtype in DTYPES.values())
        return f"has type {dtype_name(tensor.dtype)}, expected one of {known}: convert it, such as by .float()"
    if kind not in (Tensor, nn.Parameter, nn.Buffer):
        remedy = "convert it with .full_tensor() if it is sharded, with .dequantize() if it is quantised"
        return f"is a {kind.__name__}, expected a plain tensor: {remedy}"
    return ""
