"""Logits of a decoder behind the tokens of texts.

A decoder with keys and values may return the logits of the last position only. It then receives one token of each piece
at a time, with the keys and values that it returned for the tokens before.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.errors import BadInputError, EdgeEmbedError, one_line
from edge_embed.program.bfloat16 import in_float32
from edge_embed.program.program import Program, ProgramInput, array
from edge_embed.validation.all_positions import with_all_positions
from edge_embed.validation.model_inputs import id_bounds
from edge_embed.validation.pair.cached_sizes import prompt_sizes
from edge_embed.validation.pair.inputs import is_flag
from edge_embed.validation.pair.module import Feeds, Run

Ids = NDArray[np.int64]
_MOST_PIECES = 16  # that a decoder reads token by token, side by side
_MOST_BYTES = 1 << 29  # of their logits
_TRIED = 3  # tokens of the prompt that shows which logits a decoder returns


def program_decoder(program: Program, option: str = "texts") -> "Decoder":
    """Return a decoder that a program computes; errors are those of `Decoder`."""
    wide = in_float32(program)
    by_token = Decoder(wide, _run_of(wide), option)
    if not by_token.reads_tokens:
        return by_token
    whole = with_all_positions(wide, by_token.logits_at, tensors_of(wide, by_token.prompt(np.arange(_TRIED)[None])))
    return by_token if whole is wide else Decoder(whole, _run_of(whole), option)


def _run_of(program: Program) -> Run:
    """Return a function that runs a program as a runtime runs a file."""
    return lambda feeds: [array(value) for value in program.run(*tensors_of(program, feeds))]


def tensors_of(program: Program, feeds: Feeds) -> tuple[Tensor, ...]:
    """Return inputs of a runtime as inputs of a program."""
    return tuple(torch.from_numpy(np.array(feeds[each.name])).to(each.dtype) for each in program.inputs)


class Decoder:
    """A decoder that computes logits behind the tokens of texts.

    Args:
        program: inputs and outputs of the model.
        run: function that runs the model.
        option: option that names the texts, for messages.

    Attributes:
        program: the model.
        rows: number of ids.
        logits_at: position of the logits among the outputs.
        reads_tokens: whether it receives one token at a time.
        has_batch: whether it accepts several pieces at a time.

    Raises:
        BadInputError: the model is no decoder, or returns no logits.
    """

    def __init__(self, program: Program, run: Run, option: str = "texts") -> None:
        self.program, self._option = program, option
        self._inputs, self._sizes, self._outputs = program.inputs, program.example_sizes, program.output_names
        self._run = run
        bounds = id_bounds(program)
        named = [declared for declared in program.inputs if declared.name in bounds]
        if len(named) != 1 or prompt_sizes(self._sizes, 1) is None:
            found = ", ".join(f"{each.name} {[*each.shape]}" for each in named) or "none"
            expected = f"expected a decoder with one, [batch, sequence]: leave {option} out"
            raise BadInputError(f"{option}: got a model with the inputs of ids {found:.300}, {expected}")
        (ids,) = named
        self._ids, self.rows = ids.name, bounds[ids.name]
        self._states = [each.name for each in program.inputs if _is_state(each)]
        self.has_batch = isinstance(ids.shape[0], str)
        at = next((at for at, name in enumerate(self._outputs) if "logit" in name.lower()), None)
        self.logits_at = at or 0
        self._has_name = at is not None  # other outputs may be hidden states, and count only with one number an id
        self.reads_tokens = self._returns_last()

    def pieces(self, tokens: int) -> int:
        """Return the number of pieces of some tokens for one call of `logits`."""
        if not (self.reads_tokens and self.has_batch):
            return 1
        return max(1, min(_MOST_PIECES, _MOST_BYTES // (4 * tokens * self.rows)))

    def logits(self, pieces: Ids) -> Iterator[NDArray[Any]]:
        """Yield the logits [n, ids] behind all tokens of each piece, of pieces [b, n]."""
        if self.reads_tokens:
            yield from self._token_by_token(pieces)
        else:
            for piece in pieces:
                yield self._call(piece[None])[0][0]

    def prompt(self, ids: Ids, past: int = 0, states: Sequence[NDArray[Any]] | None = None) -> dict[str, NDArray[Any]]:
        """Return the inputs for ids [b, n] behind earlier tokens, whose states are given."""
        sizes = prompt_sizes(self._sizes, ids.shape[1], len(ids), past)
        assert sizes is not None
        given = {each.name: self._value(each, each.sizes(sizes), ids, past) for each in self._inputs}
        return given if states is None else given | dict(zip(self._states, states, strict=True))

    def _token_by_token(self, pieces: Ids) -> NDArray[Any]:
        """Return the logits [b, n, ids]."""
        states, found = None, list[NDArray[Any]]()
        for at in range(pieces.shape[1]):
            logits, states = self._call(pieces[:, at : at + 1], at, states)
            found.append(logits)
        return np.concatenate(found, 1)

    def _returns_last(self) -> bool:
        """Return whether the logits are those of the last position only."""
        outputs = self._outputs_of(np.zeros((1, _TRIED), np.int64))
        logits = outputs[self.logits_at]
        is_last = logits.shape[:2] == (1, 1) and len(self._states) == len(outputs) - 1 > 0
        self._check(logits, (1, 1 if is_last else _TRIED))
        return is_last

    def _call(
        self, ids: Ids, past: int = 0, states: Sequence[NDArray[Any]] | None = None
    ) -> tuple[NDArray[Any], list[NDArray[Any]]]:
        """Return the logits of ids [b, n], and the states for the next tokens."""
        outputs = self._outputs_of(ids, past, states)
        logits = outputs.pop(self.logits_at)
        self._check(logits, ids.shape, int(ids.max()) + 1)
        return logits, outputs

    def _outputs_of(self, ids: Ids, past: int = 0, states: Sequence[NDArray[Any]] | None = None) -> list[NDArray[Any]]:
        try:
            return [np.asarray(output) for output in self._run(self.prompt(ids, past, states))]
        except EdgeEmbedError:
            raise
        except Exception as error:  # any exception of the model or its runtime
            tokens = past + ids.shape[1]
            expected = f"expected a decoder that accepts {tokens} token(s): leave {self._option} out"
            raise BadInputError(
                f"{self._option}: the model fails on {tokens} token(s) ({one_line(error)}), {expected}"
            ) from error

    def _value(self, declared: ProgramInput, shape: Sequence[int], ids: Ids, past: int) -> NDArray[Any]:
        kind = declared.array_type
        if declared.name == self._ids:
            return ids.reshape(shape).astype(kind)
        if is_flag(declared.name):
            return np.ones(shape, kind)
        if declared.dtype.is_floating_point:  # keys and values of no tokens
            return np.zeros(shape, kind)
        count = ids.shape[1]
        if not shape or shape[-1] != count:
            raise BadInputError(
                f"{self._option}: got the input {declared.name} {shape}, expected masks, positions and states"
            )
        return np.broadcast_to(np.arange(past, past + count, dtype=kind), shape)

    def _check(self, logits: NDArray[Any], shape: tuple[int, ...], least: int = 1) -> None:
        """Raise for an output that holds no logits of next tokens [*shape, ids], of at least so many ids."""
        name, found = self._outputs[self.logits_at], logits.shape
        is_sound = len(found) == 3 and found[:2] == shape and found[2] >= least
        is_sound &= self._has_name or (found[-1:] == (self.rows,) and "hidden" not in name.lower())
        if not is_sound or not np.issubdtype(logits.dtype, np.floating):
            wanted = ", ".join(map(str, (*shape, self.rows)))
            expected = f"expected logits of next tokens, [{wanted}]: give a language model, or leave {self._option} out"
            raise BadInputError(f"{self._option}: output {name}: got {logits.dtype} {[*found]}, {expected}")


def _is_state(declared: ProgramInput) -> bool:
    return declared.dtype.is_floating_point and not is_flag(declared.name)
