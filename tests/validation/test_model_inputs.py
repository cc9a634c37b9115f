"""Model inputs are random where possible, and equal to the example elsewhere."""

import numpy as np
import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.validation.cases import choose_cases
from edge_embed.validation.model_inputs import id_bounds, make_cases
from edge_embed.validation.options import ValidationOptions

from .conftest import make_program


class Positions(nn.Module):
    """Two tables read by one input, a position table of 9 rows read by the length, a mask."""

    def __init__(self):
        super().__init__()
        self.small = DPQEmbedding(20, 8, 4, 2)
        self.large = DPQEmbedding(40, 8, 4, 2)
        self.position = nn.Embedding(9, 8)

    def forward(self, ids, other, mask):
        places = torch.arange(ids.shape[1]).expand(ids.shape)
        rows = self.small(ids) + self.large(ids * 1) + self.large(other) + self.position(places)
        return rows * mask.unsqueeze(-1)


def positions(tmp_path, length=4):
    ids = torch.randint(1, 20, (2, length))
    return make_program(Positions(), (ids, ids + 15, torch.full((2, length), 3.0)), tmp_path)


def test_id_bounds_stay_below_smallest_reached_table(tmp_path):
    # The length of `ids` reaches the position table, their values do not.
    assert id_bounds(positions(tmp_path)) == {"ids": 20, "other": 40}


def test_mask_whose_sums_are_positions_takes_values_of_example(tmp_path):
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.position = DPQEmbedding(20, 8, 4, 2), nn.Embedding(9, 8)

        def forward(self, ids, mask):
            return self.words(ids) + self.position((mask.cumsum(-1) - 1).clamp(min=0))

    ids = torch.randint(1, 20, (2, 4))
    program = make_program(Counted(), (ids, torch.ones_like(ids)), tmp_path)
    assert id_bounds(program) == {"ids": 20}
    cases, left_out = make_cases(program, np.random.default_rng(0))
    assert left_out == []
    assert all((case.inputs[1] == 1).all() for case in cases)


def test_inputs_without_ids_take_values_of_example(tmp_path):
    cases, left_out = make_cases(positions(tmp_path), np.random.default_rng(0))
    assert left_out == []
    assert len({case.inputs[0].shape for case in cases}) == 3
    for case in cases:
        assert (case.inputs[2] == 3.0).all()
        assert case.inputs[0].any()


def test_size_refused_by_model_is_left_out_with_reason(tmp_path):
    class Short(Positions):
        def __init__(self):
            super().__init__()
            self.position = nn.Embedding(5, 8)

    ids = torch.randint(1, 20, (2, 4))
    program = make_program(Short(), (ids, ids, torch.ones(2, 4)), tmp_path)
    cases, left_out = make_cases(program, np.random.default_rng(0))
    assert len(cases) == 3
    assert len(left_out) == 1
    assert "sequence=7" in left_out[0]


FIXED = [{"batch": 1, "sequence": 4}, {"batch": 1, "sequence": 8}]


def test_file_of_fixed_sizes_gets_only_these(tmp_path):
    program = positions(tmp_path)
    usual, _ = make_cases(program, np.random.default_rng(0), fixed=FIXED)
    cases, left_out = make_cases(program, np.random.default_rng(0), more=4, fixed=FIXED)
    assert left_out == []
    assert [program.dynamic_sizes(case.inputs) for case in cases] == [
        FIXED[0],
        FIXED[0],
        FIXED[1],
        FIXED[1],
        *FIXED * 2,
    ]
    more = cases[len(usual) :]
    assert [case.name for case in more[:2]] == [
        "random case 0, batch=1, sequence=4",
        "random case 1, batch=1, sequence=8",
    ]


def test_saved_inputs_of_other_sizes_than_file_are_refused(tmp_path):
    program, saved = positions(tmp_path), tmp_path / "inputs.npz"
    random = np.random.default_rng(0)
    choose_cases(program, random, ValidationOptions(save_inputs=saved), FIXED)
    cases, _ = choose_cases(program, random, ValidationOptions(inputs=saved), FIXED)
    assert len(cases) == 4
    message = (
        "uniform ids, batch=1, sequence=4: got inputs of batch=1, sequence=4, expected the sizes of a "
        "signature, batch=2, sequence=4 or batch=1, sequence=8: choose such inputs, or export with these sizes too"
    )
    with pytest.raises(BadInputError, match=message):
        choose_cases(program, random, ValidationOptions(inputs=saved), [{"batch": 2, "sequence": 4}, FIXED[1]])


def test_ids_shifted_by_model_come_from_example(tmp_path):
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = DPQEmbedding(20, 8, 4, 2)

        def forward(self, ids):
            return self.table(ids - 1000)

    program = make_program(Shifted(), (torch.randint(1000, 1020, (2, 4)),), tmp_path)
    cases, left_out = make_cases(program, np.random.default_rng(0))
    assert len(left_out) == 3
    assert [case.name for case in cases][1:] == [f"{text.partition(':')[0]} from the example" for text in left_out]
    assert all(int(case.inputs[0].min()) >= 1000 for case in cases)
