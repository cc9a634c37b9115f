"""Sizes of converted models whose dimensions depend on each other."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite.signatures import choose_signatures
from edge_embed.program.load import capture_program


class Masked(nn.Module):
    """Sum over earlier and new items that a mask selects."""

    def forward(self, past, new, mask):
        return (torch.cat([past, new], 1) * mask).sum(1)


def test_size_that_is_sum_follows_requested_sizes():
    names = {"past": "past_length", "new": "new_length", "mask": "past_length + new_length"}
    program = capture_program(
        Masked(),
        {"past": torch.ones(2, 5), "new": torch.ones(2, 3), "mask": torch.ones(2, 8)},
        {name: {1: Dim.AUTO} for name in names},
        dimension_names={name: {1: dimension} for name, dimension in names.items()},
    )
    found = choose_signatures(program, {"past_length": [4, 16], "new_length": [1]})
    assert [(name, sizes["past_length + new_length"]) for name, sizes in found.items()] == [
        ("past_length_4", 5),
        ("past_length_16", 17),
    ]


class Translated(nn.Module):
    """Keys of the earlier source, then those of the new one."""

    def forward(self, past, new):
        return torch.cat([past, new], 1)


def test_encoder_decoder_with_keys_and_values_is_refused_with_remedy():
    names = {"past": "past_encoder_sequence_length", "new": "encoder_sequence_length"}
    program = capture_program(
        Translated(),
        {"past": torch.ones(2, 5), "new": torch.ones(2, 3)},
        {name: {1: Dim.AUTO} for name in names},
        dimension_names={name: {1: dimension} for name, dimension in names.items()},
    )
    with pytest.raises(BadInputError, match=r"target tflite: got .*empty inputs, expected .* sizes: .*--no-cache"):
        choose_signatures(program, {})
