"""Sizes of decoders that receive keys and values of earlier tokens."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.program.program import ProgramInput
from edge_embed.validation.pair.cached_sizes import cached_steps, summed, with_state_sizes
from edge_embed.validation.pair.inputs import examples
from edge_embed.validation.pair.texts import Texts

GENAI = {"batch_size": 2, "sequence_length": 5, "total_sequence_length": 3, "past_sequence_length": 4}
OPTIMUM = {"batch_size": 2, "sequence_length": 5, "past_sequence_length": 4}
OPTIMUM |= {"past_sequence_length + sequence_length": 1}
SLIDING = {"sequence_length": 5, "total_sequence_length": 1, "past_sliding_length": 9}


@pytest.mark.parametrize(
    ("sizes", "sums"),
    [
        (GENAI, {"total_sequence_length": 9}),
        (OPTIMUM, {"past_sequence_length + sequence_length": 9}),
        (SLIDING, {"total_sequence_length": 5}),
        ({"sequence_length": 5, "total_sequence_length": 3}, {"total_sequence_length": 5}),
        ({"past + 1": 7, "past": 2}, {"past + 1": 3}),
        ({"a + b": 7, "a": 2}, {}),
        ({"batch": 3, "sequence": 4}, {}),
    ],
)
def test_sums_have_sizes_of_their_terms(sizes: dict[str, int], sums: dict[str, int]) -> None:
    assert summed(sizes) == {**sizes, **sums}


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_steps_of_decoder_are_prompt_and_next_tokens(batch: int, new: int, past: int) -> None:
    sizes = {"batch_size": batch, "sequence_length": new, "total_sequence_length": 1, "past_sequence_length": past}
    steps = [[*step.values()] for step in cached_steps(sizes)]
    assert steps == [[batch, new, new, 0], [batch, 1, past + 1, past], [1, new, past + new, past]]


def test_next_token_of_encoder_decoder_comes_without_source() -> None:
    source, target = "encoder_sequence_length", "decoder_sequence_length"
    mask = f"past_{source} + {source}"
    sizes = {"batch_size": 3, source: 7, mask: 1, target: 5, f"past_{target}": 2, f"past_{source}": 4}
    prompt, next_token, more = cached_steps(sizes)
    assert prompt == {**sizes, mask: 7, f"past_{target}": 0, f"past_{source}": 0}
    assert next_token == {**sizes, source: 0, mask: 4, target: 1}
    assert more == {**sizes, mask: 11, "batch_size": 1}


def test_steps_of_other_models_are_empty() -> None:
    assert [*cached_steps({"batch": 3, "sequence": 4})] == []


def declared() -> tuple[ProgramInput, ...]:
    state = ("batch_size", 2, "past_sequence_length", "kv_cache_dim")
    return (
        ProgramInput("input_ids", torch.int64, ("batch_size", "sequence_length")),
        ProgramInput("attention_mask", torch.int64, ("batch_size", "total_sequence_length")),
        ProgramInput("past_key_values.0.key", torch.float32, state),
    )


def test_width_of_states_is_fixed_by_example() -> None:
    example = (torch.zeros(1, 3), torch.zeros(1, 7), torch.zeros(1, 2, 4, 64))
    *same, state = with_state_sizes(declared(), example)
    assert same == [*declared()[:2]]
    assert state.shape == ("batch_size", 2, "past_sequence_length", 64)


def test_buffer_of_window_is_fixed_by_example() -> None:
    state = ProgramInput("past_key_values.0.key", torch.float32, ("batch_size", 2, "past_sliding_length", 8))
    example = (torch.zeros(1, 3), torch.zeros(1, 67), torch.zeros(1, 2, 64, 8))
    assert with_state_sizes((*declared()[:2], state), example)[2].shape == ("batch_size", 2, 64, 8)


def test_inputs_of_other_models_stay_dynamic() -> None:
    inputs = (ProgramInput("features", torch.float32, ("batch", "width")),)
    assert with_state_sizes(inputs, (torch.zeros(2, 3),)) == inputs


def test_examples_have_full_masks_of_past_and_new_tokens() -> None:
    found = examples(declared(), {"input_ids": 50}, Texts(), (), np.random.default_rng(0))
    for _, (ids, mask, state) in zip(range(8), found, strict=False):
        assert mask.shape == (ids.shape[0], state.shape[2] + ids.shape[1])
        assert mask.all()
