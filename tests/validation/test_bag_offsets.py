"""Random cases of models whose inputs are bag offsets are always valid."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import edge_embed
from edge_embed.validation.bag_offsets import Offsets, bag_offsets
from edge_embed.validation.model_inputs import make_cases
from edge_embed.workflow import load


class Bags(nn.Module):
    """A compressed and a dense table, whose bags have common or separate offsets."""

    def __init__(self, has_last: bool) -> None:
        super().__init__()
        self.packed = edge_embed.DPQEmbeddingBag(40, 8, 4, 2, mode="sum", include_last_offset=has_last)
        self.dense = nn.EmbeddingBag(30, 8, mode="mean", include_last_offset=has_last)

    def forward(self, ids, offsets, others, bounds):
        return self.packed(ids, offsets).sum() + self.dense(others.long(), bounds.long()).sum()


@pytest.mark.parametrize(("has_last", "offsets"), [(False, [0, 1]), (True, [0, 1, 4])])
def test_offsets_of_bags_are_drawn_so_that_every_case_runs(tmp_path, has_last, offsets):
    ids, places = torch.tensor([1, 2, 3, 4]), torch.tensor(offsets)
    inputs = (ids, places, ids.int(), places.int())
    edge_embed.save(Bags(has_last), tmp_path / "m.pt", example_inputs=inputs)
    program = load(tmp_path / "m.pt")
    assert bag_offsets(program) == {"offsets": Offsets("ids", has_last), "bounds": Offsets("others", has_last)}
    cases, left_out = make_cases(program, np.random.default_rng(0), more=3)
    assert all("=1" in reason for reason in left_out)  # one offset makes no bag if it is the last one too
    assert len(cases) + len(left_out) == 7
    assert len({tuple(case.inputs[1].tolist()) for case in cases}) > 3


def test_offsets_computed_by_model_are_left_to_it(tmp_path):
    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = edge_embed.DPQEmbeddingBag(40, 8, 4, 2, mode="sum")

        def forward(self, ids):
            return self.words(ids, torch.arange(0, ids.shape[0], 2))

    edge_embed.save(Halves(), tmp_path / "m.pt", example_inputs=torch.tensor([1, 2, 3, 4]))
    assert bag_offsets(load(tmp_path / "m.pt")) == {}


@given(
    seed=st.integers(0, 99),
    num_offsets=st.integers(0, 9),
    num_ids=st.integers(0, 20),
    has_last=st.booleans(),
)
def test_offsets_drawn_begin_at_zero_rise_and_stay_within_ids(seed, num_offsets, num_ids, has_last):
    drawn = Offsets("ids", has_last).draw(np.random.default_rng(seed), num_offsets, num_ids)
    assert drawn.shape == (num_offsets,)
    assert (np.diff(drawn) >= 0).all()
    assert (drawn >= 0).all()
    assert (drawn <= num_ids).all()
    if num_offsets > 1:
        assert drawn[0] == 0
        assert not has_last or drawn[-1] == num_ids
