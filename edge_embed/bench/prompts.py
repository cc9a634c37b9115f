"""Inputs of a decoder for a prompt: ids, a mask, positions, and empty keys and values."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto

from edge_embed.importers.genai_folder import GenaiFolder
from edge_embed.program.program import ProgramInput
from edge_embed.validation.pair.cached_sizes import cached_steps, is_buffer
from edge_embed.validation.pair.inputs import declared_inputs, is_flag

_IDS = "input_ids"
_STATE_RANK = 4


def prompt_feeds(folder: GenaiFolder, model: ModelProto, ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the inputs of a prompt of one sequence.

    Args:
        folder: the folder of the decoder, which names the input of the ids.
        model: the decoder.
        ids: ids of the prompt [S].
    """
    inputs = declared_inputs(model)
    names = {size for each in inputs for size in each.shape if isinstance(size, str)}
    buffer = max(folder.window, len(ids))
    sizes = {name: 1 if "batch" in name else buffer if is_buffer(name) else len(ids) for name in names}
    for each in inputs:
        if each.dtype.is_floating_point and len(each.shape) == _STATE_RANK:  # [batch, heads, past, width]
            for axis, name in ((1, "num_key_value_heads"), (3, "head_size")):
                size, known = each.shape[axis], folder.decoder.get(name)
                if isinstance(size, str) and isinstance(known, int):
                    sizes[size] = known
    sizes = next(cached_steps(sizes), sizes)  # the first step has no earlier tokens
    name_of_ids = folder.decoder.get("inputs", {}).get(_IDS, _IDS)

    def value(each: ProgramInput) -> NDArray[Any]:
        shape = each.sizes(sizes)
        if each.name == name_of_ids:
            found = torch.from_numpy(ids).expand(shape)
        elif each.dtype.is_floating_point or is_flag(each.name):
            found = torch.full(shape, 0 if each.dtype.is_floating_point else 1)
        else:
            found = torch.arange(shape[-1]).expand(shape)
        array: NDArray[Any] = found.to(each.dtype).numpy()
        return array

    return {each.name: value(each) for each in inputs}
