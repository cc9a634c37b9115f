"""Description of ``torch.save`` files with other content than the weights of a model."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from edge_embed.program.find_weights import Checkpoint
from edge_embed.program.inert_pickle import Inert
from edge_embed.program.kind_of_file import MATRIX

_SAVE_WEIGHTS = "save them with torch.save(model.state_dict(), path)"
_MAKE_PLAIN = "load the model, convert them to dense float32 tensors, and save its state_dict again"
_MOST_DEPTH = 4
_SHOWN = 5
_OPTIMIZER = {"state", "param_groups"}  # keys of a torch optimizer's state_dict
_DEEPSPEED = {"optimizer_state_dict", "ds_version"}


def without_weights(content: Any, checkpoint: Checkpoint) -> str | None:
    """Return the content of the file and the remedy, for a message; None if it may hold weights of a model.

    Args:
        content: from `read_checkpoint`.
        checkpoint: from `open_checkpoint` of the content.
    """
    if isinstance(content, Inert):
        return None
    if isinstance(content, Tensor):
        is_matrix = content.ndim == 2 and content.is_floating_point()
        remedy = MATRIX if is_matrix else _SAVE_WEIGHTS
        return f"contains one tensor, {content.dtype} {list(content.shape)}, and no model: {remedy}"
    if checkpoint.unread and not checkpoint.tensors:
        names = [f"{path} ({kind})" for path, kind in checkpoint.unread.items()]
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        return f"contains no supported tensors, but {shown}: {_MAKE_PLAIN}"
    if not checkpoint.tensors:
        return f"contains no tensors, but a {_kind(content)}, expected a state_dict: {_SAVE_WEIGHTS}"
    if isinstance(content, dict) and content.keys() >= _DEEPSPEED:
        return (
            "contains a part of the optimizer state of DeepSpeed: merge the folder into one file with its "
            "zero_to_fp32.py"
        )
    states = tuple(optimizer_states(content))
    others = [path for path, tensor in checkpoint.tensors.items() if tensor.is_floating_point()]
    if states and all(path.startswith(states) for path in others):
        return f"contains the state of an optimizer, and no weights of a model: {_SAVE_WEIGHTS}"
    return None


def optimizer_states(content: Any) -> Iterator[str]:
    """Yield the path prefixes of tensors in optimizer states."""
    waiting, seen = [("", content, 0)], set()
    while waiting:
        path, value, depth = waiting.pop()
        if not isinstance(value, dict | list | tuple) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict) and value.keys() >= _OPTIMIZER and isinstance(value["param_groups"], list):
            yield path
        elif depth < _MOST_DEPTH:
            children = value.items() if isinstance(value, dict) else enumerate(value)
            waiting += [(f"{path}{name}.", child, depth + 1) for name, child in children if isinstance(name, str | int)]


def _kind(content: Any) -> str:
    if not isinstance(content, dict):
        return type(content).__name__
    return "mapping of " + ", ".join(f"{name!r:.40}" for name in list(content)[:_SHOWN]) if content else "mapping"
