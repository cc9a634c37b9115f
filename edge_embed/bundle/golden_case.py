"""Choice of a golden pair: inputs for which runtimes that compute correctly give the outputs of the training form."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edge_embed.bundle.golden import GoldenPair, GoldenTensor
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.tokenizer.fuse import FusedTokenizer
from edge_embed.inspection.tflite_file import read_tflite
from edge_embed.program.program import Program, array
from edge_embed.validation.float16_outputs import half_scales
from edge_embed.validation.model_inputs import ModelCase, make_cases
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.tflite.signatures import fixed_sizes, narrowed
from edge_embed.validation.tokenizer_model import text_feeds

_SEED = 0
_TEXTS = ["Hello world", "na\u00efve caf\u00e9, \u6771\u4eac 12.5"]


def golden_pair(program: Program, model: Path, tokenizer: FusedTokenizer | None = None) -> GoldenPair:
    """Return inputs of a model with random ids, or texts if it has a tokenizer, and the outputs of its training form.

    Args:
        program: the training form.
        model: the exported ``.onnx`` or ``.tflite`` file.
        tokenizer: tokenizer in the file.

    Raises:
        BadInputError: the training form runs on none of the inputs.
    """
    case, feeds = _texts(program, tokenizer) if tokenizer is not None else _ids(program, model)
    half = any(weight.dtype == torch.float16 for weight in program.module.buffers())
    options = ValidationOptions().for_weights(half, half_scales(program))
    outputs = []
    for index, name in enumerate(program.output_names):
        value, bounds = array(case.outputs[index]), (options.atol.of(name), options.rtol.of(name))
        outputs.append(GoldenTensor.of_output(name, value, *bounds, _usable(case, index, value, *bounds)))
    return GoldenPair(tuple(GoldenTensor.of_input(name, value) for name, value in feeds.items()), tuple(outputs))


def _ids(program: Program, model: Path) -> tuple[ModelCase, dict[str, NDArray[Any]]]:
    """Return random ids in the sizes of the example, or the example itself if the training form refuses others."""
    file = read_tflite(model) if model.suffix == ".tflite" else None
    fixed = [] if file is None else fixed_sizes(program, file)
    cases, left_out = make_cases(program, np.random.default_rng(_SEED), fixed=fixed)
    if not cases:
        raise BadInputError(f"the model fails on its own example inputs: {'; '.join(left_out)}")
    case = cases[min(1, len(cases) - 1)]  # the first is the example, whose ids are often few
    return (case if file is None else narrowed(case, program, file.outputs)), case.feeds(program)


def _texts(program: Program, tokenizer: FusedTokenizer) -> tuple[ModelCase, dict[str, NDArray[Any]]]:
    found = list(text_feeds(program, tokenizer, _TEXTS).values())
    if not found:
        raise BadInputError(f"the model fails on the ids of the texts {_TEXTS}")
    return found[0]


def _usable(case: ModelCase, index: int, value: NDArray[Any], atol: float, rtol: float) -> NDArray[np.bool_] | None:
    """Return where runtimes must agree: ids of a top-k may swap places if their scores are nearly equal."""
    score = case.scores.get(index)
    if score is None:
        return None
    scores = score(value)  # [*, k], descending
    near = np.abs(np.diff(scores, axis=-1)) <= 2 * (atol + rtol * np.abs(scores[..., 1:]))  # [*, k - 1]
    usable = np.ones(scores.shape, np.bool_)
    usable[..., 1:] &= ~near
    usable[..., :-1] &= ~near
    return usable
