"""Next tokens of texts: a compressed decoder and its original predict them, each from the tokens before.

A text is cut into pieces, and each piece is one prompt of both models. `TextPredictions` defines the figures.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.importers.text_ids import text_ids
from edge_embed.program.program import Program
from edge_embed.report.results.text_predictions import TextPredictions
from edge_embed.validation.decoder import Decoder, Ids, program_decoder
from edge_embed.validation.pair.log_probabilities import Floats, divergences, log_probabilities

_CONTEXT = 256  # tokens of a piece
_AT_ONCE = 32  # rows of logits in float64
_ROUNDING = 2e-3  # of the largest logit: a few roundings of float16
_STEP = "next tokens of texts"


class NextTokens:
    """A text that a compressed decoder and its original predict.

    Args:
        original: the original.
        texts: text in UTF-8.
        tokenizer: ``tokenizer.json`` of the model.

    Raises:
        BadInputError: a file cannot be read, or the text has fewer than two tokens or ids without a row.
    """

    def __init__(self, original: Decoder, texts: Path, tokenizer: Path) -> None:
        self._file, self._original = texts, original
        self._ids = ids_of_text(original, texts, tokenizer, least=2)

    def check(self) -> None:
        """Run the original on the first piece of the text.

        Raises:
            BadInputError: it fails, or its logits depend on later tokens.
        """
        piece = self._ids[None, : min(_CONTEXT, len(self._ids) - 1)]
        (whole,), (alone,) = self._original.logits(piece), self._original.logits(piece[:, :1])
        with np.errstate(invalid="ignore"):  # infinities of masked logits
            change, largest = (np.nan_to_num(np.abs(each), posinf=0).max() for each in (whole[:1] - alone, alone))
        if change > _ROUNDING * largest:
            expected = "expected a decoder: give a language model that generates, or leave texts out"
            raise BadInputError(f"texts: got a model whose logits depend on later tokens, {expected}")

    def compare(self, compressed: Decoder, progress: Callable[[str, int, int], None]) -> TextPredictions:
        """Compare the predictions of the original with those of the compressed model.

        Args:
            compressed: the compressed model.
            progress: called with the step, the number of predicted tokens, and of all.

        Raises:
            BadInputError: one of them fails, or returns no logits.
        """
        parts, done, every = list[Floats](), 0, len(self._ids) - 1
        progress(_STEP, done, every)
        for pieces in self._pieces(max(each.pieces(_CONTEXT) for each in (self._original, compressed))):
            logits = (each.logits(pieces[:, :-1]) for each in (self._original, compressed))
            for before, after, following in zip(*logits, pieces[:, 1:], strict=True):
                if before.shape != after.shape:
                    got, expected = after.shape[-1], before.shape[-1]
                    remedy = f"expected {expected} as of the original: give the model before compression"
                    raise BadInputError(f"texts: got logits of {got} ids, {remedy}")
                parts += _figures(before, after, following)
                done += len(following)
                progress(_STEP, done, every)
        return self._predictions(np.concatenate(parts))

    def _pieces(self, together: int) -> Iterator[Ids]:
        """Yield pieces [b, n]; the last token of each is the first of the next one."""
        whole, rest = divmod(len(self._ids) - 1, _CONTEXT)
        starts = np.arange(whole)[:, None] * _CONTEXT
        for begin in range(0, whole, together):
            yield self._ids[starts[begin : begin + together] + np.arange(_CONTEXT + 1)]
        if rest:
            yield self._ids[None, whole * _CONTEXT :]

    def _predictions(self, figures: Floats) -> TextPredictions:
        divergence, same, acceptance, original, compressed = figures.mean(0)
        with np.errstate(over="ignore"):
            perplexities = np.exp(original), np.exp(compressed)
        return TextPredictions(
            str(self._file),
            len(figures),
            min(_CONTEXT, len(figures)),
            _finite(divergence),
            float(same),
            _finite(acceptance),
            *map(_finite, perplexities),
        )


def program_texts(program: Program, texts: Path, tokenizer: Path | None) -> NextTokens:
    """Return the text for a program before compression, after `NextTokens.check`.

    Args:
        program: the original.
        texts: text in UTF-8.
        tokenizer: ``tokenizer.json`` of the model; by default the one in its folder.

    Raises:
        BadInputError: as `NextTokens`, or there is no tokenizer.
    """
    found = NextTokens(program_decoder(program), texts, tokenizer_of(program, tokenizer))
    found.check()
    return found


def ids_of_text(decoder: Decoder, texts: Path, tokenizer: Path, least: int) -> Ids:
    """Return the ids of the tokens of a text, [n].

    Raises:
        BadInputError: a file cannot be read, or the text has fewer tokens or ids without a row.
    """
    ids = text_ids(texts, tokenizer)
    if len(ids) < least:
        raise BadInputError(f"{texts}: got {len(ids)} token(s), expected at least {least}: give a longer text")
    if ids.max() >= decoder.rows:
        expected = f"expected ids below {decoder.rows}: use the tokenizer of this model"
        raise BadInputError(f"{texts}: got id {ids.max()} of {tokenizer.name}, {expected}")
    return ids


def tokenizer_of(program: Program, given: Path | None) -> Path:
    """Return the tokenizer that was given, or the one in the folder of a program; errors as of `found_tokenizer`."""
    source = program.source
    return found_tokenizer(given, None if source is None else source if source.is_dir() else source.parent)


def found_tokenizer(given: Path | None, folder: Path | None) -> Path:
    """Return the tokenizer that was given, or the one in the folder of a model.

    Raises:
        BadInputError: there is none.
    """
    if given is not None:
        return given
    beside = Path("tokenizer.json") if folder is None else folder / "tokenizer.json"
    if folder is None or not beside.exists():
        raise BadInputError(f"{beside}: no such file: expected the tokenizer of the model: give it by --tokenizer")
    return beside


def _figures(before: NDArray[Any], after: NDArray[Any], following: Ids) -> Iterator[Floats]:
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
