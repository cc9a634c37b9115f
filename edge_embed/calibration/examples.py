"""Examples that a compressed model is calibrated on: a text for a decoder, or inputs of any model.

The last tenth of them is held out: it is only measured.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.importers.text_ids import text_ids
from edge_embed.program.bfloat16 import in_float32
from edge_embed.program.program import Program
from edge_embed.validation.decoder import Decoder, program_decoder, tensors_of
from edge_embed.validation.model_inputs import id_bounds
from edge_embed.validation.next_tokens import found_tokenizer
from edge_embed.validation.saved_inputs import read_inputs

_PIECE = 128  # tokens
_AT_ONCE = 2  # pieces; more take longer for the same result
_HELD_OUT = 10
_FEWEST = 8  # different tokens of a text

Batch = tuple[Tensor, ...]  # inputs of a program


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs for a model before and after its compression.

    Attributes:
        file: file of the examples.
        unit: what is counted, ``tokens`` or ``cases``.
        count: their number.
        batches: inputs of both models.
        held_out: inputs that are only measured.
        logits_at: positions of the outputs that are logits.
        decoder: the dense model as a decoder of texts; None for other models.
    """

    file: Path
    unit: str
    count: int
    batches: Sequence[Batch]
    held_out: Sequence[Batch]
    logits_at: frozenset[int]
    decoder: Decoder | None = None

    def differentiable(self, program: Program) -> Program:
        """Return a model in the form that takes these inputs: in float32, with logits of all positions."""
        return in_float32(program) if self.decoder is None else program_decoder(program).program


def read_examples(program: Program, file: Path, tokenizer: Path | None) -> Examples:
    """Read examples for a model.

    Args:
        program: the dense model.
        file: ``.npz`` with inputs in the form of ``edge-embed validate --save-inputs``, or text in UTF-8.
        tokenizer: ``tokenizer.json`` for a text; by default the one in the folder of the model.

    Raises:
        BadInputError: the file is damaged, does not fit the model, or has too few examples.
    """
    if file.suffix.lower() == ".npz":
        return _of_cases(program, file)
    return _of_text(program, file, tokenizer)


def _of_cases(program: Program, file: Path) -> Examples:
    cases: list[Batch] = [inputs for _, inputs in read_inputs(file, program)]
    if len(cases) < 2:
        raise BadInputError(f"{file}: got {len(cases)} case, expected at least 2: one of them is only measured")
    cut = len(cases) - math.ceil(len(cases) / _HELD_OUT)
    return Examples(file, "cases", len(cases), cases[:cut], cases[cut:], _logits_at(program, cases[0]))


def _logits_at(program: Program, inputs: Batch) -> frozenset[int]:
    """Return the positions of outputs that are named logits, or have a number for each id of a table."""
    sizes = set(id_bounds(program).values())
    outputs = zip(program.output_names, program.run(*inputs), strict=True)
    found = (at for at, (name, value) in enumerate(outputs) if "logit" in name.lower() or {*value.shape[-1:]} & sizes)
    return frozenset(found)


def _of_text(program: Program, file: Path, tokenizer: Path | None) -> Examples:
    source, decoder = program.source, program_decoder(program)
    if decoder.reads_tokens:
        expected = "expected one with logits of all positions: save the model without keys and values"
        raise BadInputError(f"calibrate: got a decoder that reads one token at a time, {expected}")
    folder = None if source is None else source if source.is_dir() else source.parent
    chosen = found_tokenizer(tokenizer, folder)
    ids = torch.from_numpy(text_ids(file, chosen))
    pieces = len(ids) // _PIECE
    if pieces < 2:
        raise BadInputError(f"{file}: got {len(ids)} tokens, expected at least {2 * _PIECE}: give a longer text")
    if (different := len(ids.unique())) < _FEWEST:
        expected = f"expected at least {_FEWEST}: give a text in the language of the model"
        raise BadInputError(f"{file}: got {different} different token(s) of {chosen.name}, {expected}")
    if int(ids.max()) >= decoder.rows:
        expected = f"expected ids below {decoder.rows}: use the tokenizer of this model"
        raise BadInputError(f"{file}: got id {int(ids.max())} of {chosen.name}, {expected}")
    rows = ids[: pieces * _PIECE].view(pieces, _PIECE)
    cut = pieces - math.ceil(pieces / _HELD_OUT)
    at_once = _AT_ONCE if decoder.has_batch else 1
    batches, held_out = (list(_prompts(decoder, part, at_once)) for part in (rows[:cut], rows[cut:]))
    return Examples(file, "tokens", len(ids), batches, held_out, frozenset([decoder.logits_at]), decoder)


def _prompts(decoder: Decoder, pieces: Tensor, at_once: int) -> Iterator[Batch]:
    for some in pieces.split(at_once):
        yield tensors_of(decoder.program, decoder.prompt(some.numpy()))
