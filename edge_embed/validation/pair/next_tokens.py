"""Next tokens of texts: a compressed decoder and its original predict them, each from the tokens before.

A text is cut into pieces, and each piece is one prompt of both files. `TextPredictions` defines the figures.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.importers.text_ids import text_ids
from edge_embed.program.program import ProgramInput
from edge_embed.report.results.text_predictions import TextPredictions
from edge_embed.validation.model_inputs import id_bounds
from edge_embed.validation.pair.cached_sizes import prompt_sizes
from edge_embed.validation.pair.inputs import is_flag
from edge_embed.validation.pair.log_probabilities import Floats, divergences, log_probabilities
from edge_embed.validation.pair.module import Run
from edge_embed.validation.pair.program import PairProgram

_CONTEXT = 256  # tokens of a piece
_AT_ONCE = 32  # rows of logits in float64


def compare_next_tokens(
    program: PairProgram,
    files: tuple[Run, Run],
    texts: Path,
    tokenizer: Path,
    progress: Callable[[int, int], None],
) -> TextPredictions:
    """Compare the predictions of two files on texts.

    Args:
        program: the pair; its inputs and outputs are those of both files.
        files: functions that run the original and the compressed file.
        texts: text in UTF-8.
        tokenizer: ``tokenizer.json`` of the model.
        progress: called with the number of predicted tokens, and of all.

    Raises:
        BadInputError: the files are no decoders with logits of all positions, a file cannot be read, or the text has
            fewer than two tokens or ids without a row.
    """
    prompt = _Prompt(program)
    ids = text_ids(texts, tokenizer)
    if len(ids) < 2:
        raise BadInputError(f"{texts}: got {len(ids)} token(s), expected at least 2: give a longer text")
    if ids.max() >= prompt.rows:
        found = f"id {ids.max()} of {tokenizer.name}"
        raise BadInputError(f"{texts}: got {found}, expected ids below {prompt.rows}: use the tokenizer of this model")
    parts = []
    for begin in range(0, len(ids) - 1, _CONTEXT):
        piece = ids[begin : begin + _CONTEXT + 1]
        before, after = (_logits(run, prompt, piece, program.output_names) for run in files)
        parts += list(_figures(before, after, piece[1:]))
        progress(begin + len(piece) - 1, len(ids) - 1)
    every = np.concatenate(parts)
    divergence, same, acceptance, original, compressed = every.mean(0)
    return TextPredictions(
        str(texts),
        len(every),
        min(_CONTEXT, len(every)),
        _finite(divergence),
        float(same),
        _finite(acceptance),
        _finite(np.exp(original)),
        _finite(np.exp(compressed)),
    )


class _Prompt:
    """Inputs of a decoder without earlier tokens."""

    def __init__(self, program: PairProgram) -> None:
        self._inputs, self._sizes = program.inputs, program.example_sizes
        bounds = id_bounds(program)
        named = [declared.name for declared in program.inputs if declared.name in bounds]
        if len(named) != 1 or prompt_sizes(self._sizes, 1) is None:
            declared = ", ".join(f"{each.name} {[*each.shape]}" for each in program.inputs)
            expected = "expected a decoder with one input of ids [batch, sequence]"
            raise BadInputError(f"texts: got a model with the inputs {declared:.300}, {expected}")
        self._ids, self.rows = named[0], bounds[named[0]]

    def feeds(self, ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the inputs for the ids [n]."""
        sizes = prompt_sizes(self._sizes, len(ids))
        assert sizes is not None
        return {each.name: self._value(each, each.sizes(sizes), ids) for each in self._inputs}

    def _value(self, declared: ProgramInput, shape: Sequence[int], ids: NDArray[np.int64]) -> NDArray[Any]:
        kind = declared.array_type
        if declared.name == self._ids:
            return ids.reshape(shape).astype(kind)
        if is_flag(declared.name):
            return np.ones(shape, kind)
        if declared.dtype.is_floating_point:  # keys and values of no tokens
            return np.zeros(shape, kind)
        if not shape or shape[-1] != len(ids):
            raise BadInputError(f"texts: got the input {declared.name} {shape}, expected masks, positions and states")
        return np.broadcast_to(np.arange(len(ids), dtype=kind), shape)


def _logits(run: Run, prompt: _Prompt, piece: NDArray[np.int64], names: Sequence[str]) -> NDArray[Any]:
    """Return the logits [n - 1, rows] of all tokens of a piece [n] but the first."""
    found = dict(zip(names, run(prompt.feeds(piece[:-1])), strict=True))
    name = next((name for name in names if "logit" in name.lower()), names[0])
    logits = np.asarray(found[name])
    shape = logits.shape
    is_sound = len(shape) == 3 and shape[:2] == (1, len(piece) - 1) and shape[2] > piece.max()
    if not is_sound or not np.issubdtype(logits.dtype, np.floating):
        expected = f"expected logits [1, {len(piece) - 1}, more than {piece.max()}], one vector for each token"
        raise BadInputError(f"texts: output {name}: got {logits.dtype} {[*shape]}, {expected}")
    found_rows: NDArray[Any] = logits[0]
    return found_rows


def _figures(before: NDArray[Any], after: NDArray[Any], following: NDArray[np.int64]) -> Iterator[Floats]:
    """Yield divergence, same choice, acceptance and both losses of some predictions, [m, 5]."""
    for begin in range(0, len(following), _AT_ONCE):
        some = slice(begin, begin + _AT_ONCE)
        with np.errstate(invalid="ignore", divide="ignore"):  # infinities of masked logits
            p, q = log_probabilities(before[some]), log_probabilities(after[some])
            divergence = divergences(p, q)
        each = np.arange(len(p)), following[some]
        overlap = np.exp(np.minimum(p, q)).sum(1)
        yield np.stack([divergence, p.argmax(1) == q.argmax(1), overlap, -p[each], -q[each]], 1)


def _finite(value: np.float64) -> float | None:
    return float(value) if np.isfinite(value) else None
