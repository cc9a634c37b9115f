"""Codes and centroids by the curvature of the outputs: the objective falls, and no other code is better."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import edge_embed
from edge_embed.calibration.codes import has_codes, nearest_codes
from edge_embed.calibration.curvature import Curvature
from edge_embed.calibration.stored_values import StoredTable, stored_tables, with_values
from edge_embed.packed.packed_form import PackedTable
from edge_embed.program.program import Program
from edge_embed.workflow import load, lower_program
from tests.calibration.tagger import SETTINGS

CODED = ["dpq", "dpq, float16", "dpq, int8", "rows", "tiered"]
ROWS = torch.randn(300, 16, generator=torch.Generator().manual_seed(0))


def made(setting: str, padding_idx: int | None = None) -> tuple[Program, StoredTable, Curvature]:
    """Return a compressed table, and a curvature with columns and rows of different weights."""
    rows = ROWS if padding_idx is None else ROWS.index_fill(0, torch.tensor(padding_idx), 0)
    model = nn.Sequential(nn.Embedding.from_pretrained(rows, padding_idx=padding_idx))
    dense = load(model, (torch.zeros(2, 3, dtype=torch.int64),))
    small, _ = edge_embed.compress(dense, setting.partition(",")[0], modules=["0"], **SETTINGS[setting])
    assert isinstance(small, Program)
    random = torch.Generator().manual_seed(1)
    curvature = Curvature(*ROWS.shape)
    mixed = torch.randn(16, 16, generator=random)
    for _ in range(50):
        curvature.add(torch.randn(ROWS.shape, generator=random) @ mixed * torch.logspace(0, 1, 300)[:, None])
    return small, stored_tables(small)["0"], curvature


def objective(rows: Any, curvature: Curvature) -> Any:
    """Return s_i (r_i - e_i)^T H (r_i - e_i), float64 [n]."""
    errors = torch.as_tensor(rows).double() - ROWS.double()
    return curvature.of_rows().double() * ((errors @ curvature.matrix().double()) * errors).sum(1)


def packed_of(program: Program) -> PackedTable:
    return lower_program(program).tables["0"]


def every(packed: PackedTable) -> Any:
    return packed.rows_float64(np.arange(300))


@pytest.mark.parametrize("setting", CODED)
def test_objective_falls_and_last_codes_are_best(setting: str) -> None:
    small, table, curvature = made(setting)
    found: Mapping[str, Tensor] = nearest_codes(table, {}, ROWS, curvature)
    better = packed_of(with_values(small, found))
    before, after = (objective(every(each), curvature).sum() for each in (packed_of(small), better))
    assert after < 0.97 * before
    if setting.startswith("dpq"):
        last = better.num_groups - 1
        codes, least = better.codes_of(np.arange(300)), objective(every(better), curvature)
        for code in range(better.num_codes):  # the last group was chosen with all others as they are
            codes[:, last] = code
            other = type(better).from_codes(codes, better.values, None, better.value_scales)
            assert (objective(every(other), curvature) >= least * (1 - 2e-3)).all()  # values are float16 in files


def test_centroids_are_those_of_least_squares() -> None:
    """No small change of a centroid of the last group lowers the objective, with the codes of the last sweep."""
    small, table, curvature = made("dpq")
    found = nearest_codes(table, {}, ROWS, curvature)
    values = found["0.values"].clone().requires_grad_()
    codes = torch.from_numpy(packed_of(with_values(small, found)).codes_of(np.arange(300)).astype(np.int64))
    chosen = [values[group][codes[:, group]] for group in range(4)]
    loss = objective(torch.cat(chosen, 1), curvature).sum()
    loss.backward()
    scale = loss.item() / values.detach().abs().mean().item()
    assert values.grad is not None
    assert values.grad[-1].abs().max() < 0.05 * scale  # rows chose again after the centroids had moved


def test_int8_and_shared_centroids_stay() -> None:
    for setting in ("dpq, int8", "rows"):
        _, table, curvature = made(setting)
        assert set(nearest_codes(table, {}, ROWS, curvature)) == {"0.codes"}


@pytest.mark.parametrize("setting", ["dpq", "rows"])
def test_padding_row_stays_zero(setting: str) -> None:
    small, table, curvature = made(setting, padding_idx=7)
    found = nearest_codes(table, {}, ROWS, curvature)
    assert not packed_of(with_values(small, found)).rows_float64(np.array([7])).any()
    assert not found["0.codes"][7].any()


@pytest.mark.parametrize("setting", ["ant", "tt", "low_rank"])
def test_methods_without_codes_are_known(setting: str) -> None:
    assert not has_codes(made(setting)[1])


def test_table_that_no_output_depends_on_keeps_its_codes() -> None:
    _, table, _ = made("dpq")
    assert nearest_codes(table, {}, ROWS, Curvature(*ROWS.shape)) == {}
