"""Greedy generation with unmodified ONNX Runtime GenAI."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime_genai
from numpy.typing import NDArray


@dataclass(frozen=True)
class Generated:
    """Result of one prompt.

    Attributes:
        tokens: the new tokens.
        logits: logits behind the prompt [n].
    """

    tokens: list[int]
    logits: NDArray[np.float64]


def generate(folder: Path, prompts: int, length: int, rows: int) -> list[Generated]:
    """Generate ``length`` tokens for random prompts of ids below ``rows``."""
    model, random = onnxruntime_genai.Model(str(folder)), np.random.default_rng(0)
    found = []
    for _ in range(prompts):
        ids = random.integers(3, rows, random.integers(1, 9)).astype(np.int32)
        given = onnxruntime_genai.GeneratorParams(model)
        given.set_search_options(max_length=len(ids) + length, min_length=len(ids) + length, do_sample=False)
        generator = onnxruntime_genai.Generator(model, given)
        generator.append_tokens(ids)
        logits = np.array(generator.get_output("logits"), np.float64)[0, -1]
        while not generator.is_done():
            generator.generate_next_token()
        found.append(Generated([int(token) for token in generator.get_sequence(0)[len(ids) :]], logits))
    return found
