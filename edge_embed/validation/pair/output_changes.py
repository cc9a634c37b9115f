"""Changes of the outputs of a whole model by compression; they are informational and never fail validation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.program.program import array
from edge_embed.report.results.validation import OutputChange
from edge_embed.validation.model_inputs import ModelCase
from edge_embed.validation.pair.log_probabilities import divergences, log_probabilities
from edge_embed.validation.pair.program import PairProgram

Arrays = Sequence[NDArray[Any]]


def changes_of_model(
    program: PairProgram, cases: Sequence[ModelCase], vocabularies: Sequence[int]
) -> tuple[OutputChange, ...]:
    """Run the original on the inputs of all cases, and compare its outputs with those of the compressed model."""
    pairs = [
        ([array(one) for one in program.original.run(*case.inputs)], [array(one) for one in case.outputs])
        for case in cases
    ]
    return output_changes(program.output_names, pairs, vocabularies)


def output_changes(
    names: Sequence[str], pairs: Sequence[tuple[Arrays, Arrays]], vocabularies: Sequence[int]
) -> tuple[OutputChange, ...]:
    """Compare the outputs of two models.

    Args:
        names: names of the outputs.
        pairs: outputs of the original and of the compressed model for each case.
        vocabularies: row counts of the tables: an output with such a last axis holds logits.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # infinities, such as of masked logits
        return tuple(
            _change(name, [(np.asarray(before[at]), np.asarray(after[at])) for before, after in pairs], vocabularies)
            for at, name in enumerate(names)
        )


def _change(name: str, pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]], vocabularies: Sequence[int]) -> OutputChange:
    pairs = [(before, after) for before, after in pairs if before.shape == after.shape]
    if not pairs or not all(np.issubdtype(before.dtype, np.floating) for before, _ in pairs):
        same = [before == after for before, after in pairs]
        total = sum(each.size for each in same)
        return OutputChange(
            name, None, None, None, None, sum(int(each.sum()) for each in same) / total if total else None
        )
    rows = [(_rows(before), _rows(after)) for before, after in pairs]
    length = np.sqrt(sum(float(np.square(one).sum()) for one, _ in rows))
    error = np.sqrt(sum(float(np.square(other - one).sum()) for one, other in rows))
    classes = {each.shape[-1] for each, _ in pairs if each.ndim}
    has_classes = all(each.ndim and each.shape[-1] > 1 for each, _ in pairs)
    is_logits = has_classes and ("logit" in name.lower() or bool(classes & set(vocabularies)))
    return OutputChange(
        name,
        float(error / length) if length and np.isfinite(error / length) else None,
        _mean([_cosines(*each) for each in rows]),
        _mean([one.argmax(1) == other.argmax(1) for one, other in rows]) if has_classes else None,
        _mean([divergences(*map(log_probabilities, each)) for each in rows]) if is_logits else None,
        None,
    )


def _rows(values: NDArray[Any]) -> NDArray[np.float64]:
    """Reshape [*, d] to float64 [m, d]."""
    wide = values.astype(np.float64)
    return wide.reshape(-1, wide.shape[-1]) if wide.ndim and wide.shape[-1] else wide.reshape(-1, 1)


def _mean(parts: Sequence[NDArray[Any]]) -> float | None:
    every = np.concatenate([part.astype(np.float64) for part in parts])
    every = every[np.isfinite(every)]
    return float(every.mean()) if every.size else None


def _cosines(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    products: NDArray[np.float64] = (before * after).sum(1)
    cosines: NDArray[np.float64] = products / np.linalg.norm(before, axis=1) / np.linalg.norm(after, axis=1)
    return cosines
