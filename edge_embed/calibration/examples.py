"""Examples that a compressed model is calibrated on: a text for a decoder, or inputs of any model.

The last tenth of them is held out: it is only measured.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from edge_embed.errors import BadInputError, located
from edge_embed.input_file import check_regular
from edge_embed.program.bfloat16 import in_float32
from edge_embed.program.program import Program
from edge_embed.validation.decoder import Decoder, program_decoder, tensors_of
from edge_embed.validation.model_inputs import id_bounds
from edge_embed.validation.next_tokens import ids_of_text, tokenizer_of
from edge_embed.validation.saved_inputs import read_inputs, run_inputs

OPTION = "calibrate"
_PIECE, _SHORTEST = 128, 8  # tokens; pieces are halved until they fit into the context of the model
_AT_ONCE = 2  # pieces; more take longer for the same result
_HELD_OUT = 10
_FEWEST = 8  # different tokens of a text


class Example(NamedTuple):
    """Inputs of one run of a model, and their name for messages."""

    name: str
    inputs: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs for a model before and after its compression.

    Attributes:
        file: file of the examples.
        unit: what is counted, ``tokens`` or ``cases``.
        count: their number.
        fitted: inputs that values are fitted to.
        held_out: inputs that are only measured.
        logits_at: positions of the outputs that are logits.
        is_text: whether the models are decoders that read a text.
    """

    file: Path
    unit: str
    count: int
    fitted: Sequence[Example]
    held_out: Sequence[Example]
    logits_at: frozenset[int]
    is_text: bool = False

    def program_of(self, program: Program) -> Program:
        """Return a model in the form that takes these inputs: without bfloat16, and with logits of all positions."""
        return program_decoder(program, OPTION).program if self.is_text else in_float32(program)


def read_examples(program: Program, file: Path, tokenizer: Path | None) -> Examples:
    """Read examples for a model, and run it on the first one.

    Args:
        program: the dense model.
        file: ``.npz`` with inputs in the form of ``edge-embed validate --save-inputs``, or text in UTF-8.
        tokenizer: ``tokenizer.json`` for a text; by default the one in the folder of the model.

    Raises:
        BadInputError: the file is damaged, does not fit the model, or has too few examples.
    """
    if file.suffix.lower() == ".npy":
        raise BadInputError(f"{file}: got an array without names, expected an .npz file with arrays such as 0/ids")
    if file.suffix.lower() == ".npz":
        examples = _of_cases(in_float32(program), file)
    else:
        with located(str(file)):
            check_regular(file, "a text, or inputs in an .npz file")
        examples = _of_text(program, file, tokenizer)
    _check_held_out(examples)
    return examples


def _of_cases(program: Program, file: Path) -> Examples:
    cases = [Example(*case) for case in read_inputs(file, program)]
    if len(cases) < 2:
        raise BadInputError(f"{file}: got {len(cases)} case, expected at least 2: one of them is only measured")
    bounds = id_bounds(program)
    for case in cases:
        with located(f"{file}: {case.name}"):
            _check(program, bounds, case)
    outputs = run_inputs(program, *cases[0], file).outputs
    if not any(output.is_floating_point() for output in outputs):
        raise BadInputError(f"{OPTION}: got a model without outputs of type float, expected some: leave it out")
    fitted, held_out = _split(cases)
    logits_at = frozenset(_logits_at(program, bounds, cases[0], outputs))
    return Examples(file, "cases", len(cases), fitted, held_out, logits_at)


def _check(program: Program, bounds: Mapping[str, int], case: Example) -> None:
    """Raise for inputs that are empty, of another shape, or ids beyond the tables; the message names no file."""
    for declared, value in zip(program.inputs, case.inputs, strict=True):
        if problem := declared.mismatch(value):
            raise BadInputError(f"input {declared.name}: got {problem}")
        if 0 in value.shape:
            raise BadInputError(f"input {declared.name}: got shape {[*value.shape]}, expected at least one number")
        if declared.name in bounds and int(value.max()) >= bounds[declared.name]:
            expected = f"expected ids below {bounds[declared.name]}"
            raise BadInputError(f"input {declared.name}: got id {int(value.max())}, {expected}")


def _check_held_out(examples: Examples) -> None:
    """Raise if all examples that are held out are among the fitted ones, so that the measure says nothing."""
    if all(any(_are_equal(case, other) for other in examples.fitted) for case in examples.held_out):
        first, count = examples.held_out[0].name, len(examples.held_out)
        got = f"got {count} example(s) that are held out, from {first} on, all equal to earlier ones"
        raise BadInputError(f"{examples.file}: {got}, expected different inputs: give more examples")


def _are_equal(one: Example, other: Example) -> bool:
    return all(torch.equal(*pair) for pair in zip(one.inputs, other.inputs, strict=True))


def _logits_at(program: Program, bounds: Mapping[str, int], case: Example, outputs: Sequence[Tensor]) -> Iterator[int]:
    """Yield the positions of outputs that are logits by their names, or as those of a language model.

    For ids [*, sequence] of a table of n rows, the latter are numbers [*, sequence, n] that are no probabilities.
    """
    inputs = {declared.name: value for declared, value in zip(program.inputs, case.inputs, strict=True)}
    ids = {name: inputs[name].shape for name in bounds if inputs[name].ndim > 1}
    predicted = {(*shape, bounds[name]) for name, shape in ids.items()}
    for at, (name, output) in enumerate(zip(program.output_names, outputs, strict=True)):
        if not output.is_floating_point() or output.ndim < 2:
            continue
        if "logit" in name.lower() or (tuple(output.shape) in predicted and output.min() < 0):
            yield at


def _of_text(program: Program, file: Path, tokenizer: Path | None) -> Examples:
    try:
        decoder = program_decoder(program, OPTION)
    except BadInputError as error:
        raise BadInputError(f"{error}; for other models, give their inputs in an .npz file") from error
    if decoder.reads_tokens:
        expected = "expected one with logits of all positions: save the model without keys and values"
        raise BadInputError(f"{OPTION}: got a decoder that reads one token at a time, {expected}")
    chosen = tokenizer_of(program, tokenizer)
    ids = torch.from_numpy(ids_of_text(decoder, file, chosen, least=2 * _PIECE))
    if (different := len(ids.unique())) < _FEWEST:
        expected = f"expected at least {_FEWEST}: give a text in the language of the model"
        raise BadInputError(f"{file}: got {different} different token(s) of {chosen.name}, {expected}")
    piece = _fitting_piece(decoder, ids)
    pieces = ids[: len(ids) // piece * piece].view(-1, piece).split(_AT_ONCE if decoder.has_batch else 1)
    examples = [
        Example(f"pieces from token {at * pieces[0].numel()} on", _prompt(decoder, some))
        for at, some in enumerate(pieces)
    ]
    return Examples(file, "tokens", len(ids), *_split(examples), frozenset([decoder.logits_at]), is_text=True)


def _fitting_piece(decoder: Decoder, ids: Tensor) -> int:
    """Return the number of tokens of a piece that the decoder accepts."""
    piece = _PIECE
    while True:
        try:
            next(iter(decoder.logits(ids[None, :piece].numpy())))
        except BadInputError:
            if piece == _SHORTEST:
                raise
            piece //= 2
        else:
            return piece


def _prompt(decoder: Decoder, pieces: Tensor) -> tuple[Tensor, ...]:
    return tensors_of(decoder.program, decoder.prompt(pieces.numpy()))


def _split(examples: Sequence[Example]) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the examples that are fitted, and those that are held out."""
    cut = len(examples) - math.ceil(len(examples) / _HELD_OUT)
    return examples[:cut], examples[cut:]
