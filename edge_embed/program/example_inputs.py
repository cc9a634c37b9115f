"""Example inputs of an archive: a small ``torch.save`` file of tensors inside it."""

import io
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.program.archive import Archive
from edge_embed.program.archive_weights import MAX_EXPANDED_BYTES
from edge_embed.program.pickle_scan import TENSOR_NAMES, refused_names
from edge_embed.program.program import ProgramInput

MEMBER = "data/sample_inputs/model.pt"
_MAX_ITEMS = 4096
# torch.export marks example tensors with attributes, which are saved; they are dropped here.
_NAMES = TENSOR_NAMES | {"torch._tensor._rebuild_from_type_v2", "torch.Tensor"}


def read_examples(archive: Archive, inputs: Sequence[ProgramInput | None]) -> tuple[Tensor, ...]:
    """Return one example tensor for each input.

    Args:
        archive: the saved program.
        inputs: inputs in order; None is an input that is a constant of the graph (None, a number, a flag).

    Raises:
        BadInputError: if the examples hold more than tensors and constants, or do not fit ``inputs``.
    """
    content = archive.read(MEMBER)
    inner = Archive(archive.path, content)  # complete, uncompressed, within its bounds
    limit = max(len(inner.content), MAX_EXPANDED_BYTES)
    try:
        if refused := refused_names(inner.read("data.pkl"), _NAMES):
            raise ValueError(f"needs {', '.join(refused)}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stored = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # the restricted unpickler raises anything for a wrong stream
        raise BadInputError(
            f"{archive.path}: its example inputs cannot be read, or contain other objects than tensors, which "
            f"could run code ({error!s:.200}): refused; save the model with edge_embed.save"
        ) from error
    leaves = _leaves(archive, stored)
    if len(leaves) != len(inputs):
        raise archive.damaged(f"got {len(leaves)} example inputs, expected {len(inputs)}")
    examples = []
    for leaf, declared in zip(leaves, inputs, strict=True):
        if declared is not None:
            examples.append(_checked(archive, leaf, declared, limit))
    return tuple(examples)


def _leaves(archive: Archive, stored: Any) -> list[Any]:
    """Return leaves in the order of torch's trees.

    Their number is limited, as a pickle can hold loops and doubling lists.
    """
    leaves: list[Any] = []
    waiting = [stored]
    for _ in range(_MAX_ITEMS):
        if not waiting:
            return leaves
        value = waiting.pop()
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list | tuple):
            waiting.extend(reversed(value[:_MAX_ITEMS]))
        elif value is None or isinstance(value, Tensor | int | float | str):
            leaves.append(value)
        else:
            raise archive.damaged(f"an example input is a {type(value).__name__}")
    raise archive.damaged(f"its example inputs have more than {_MAX_ITEMS} parts")


def _checked(archive: Archive, example: Any, declared: ProgramInput, limit: int) -> Tensor:
    problem = declared.mismatch(example)
    if problem is None:
        example = Tensor.detach(example)  # drops attributes from the file
        if example.layout != torch.strided or example.device.type != "cpu":
            problem = f"a {example.layout} tensor on {example.device}"
        # Its few bytes are expanded by stride 0 beyond the limit.
        elif max(example.untyped_storage().nbytes(), example.nbytes) > limit:
            problem = f"larger than the limit of {limit} bytes"
    if problem is not None:
        raise archive.damaged(f"the example of input {declared.name} is {problem}")
    return example  # type: ignore[no-any-return]
