"""Stored values of every method as numbers that can be trained."""

import numpy as np
import pytest
import torch
from torch import Tensor

import edge_embed
from edge_embed.calibration.stored_values import stored_tables, with_values
from edge_embed.calibration.student import Student
from edge_embed.program.program import Program
from edge_embed.workflow import load
from tests.calibration.tagger import SETTINGS, Tagger, inputs, weights


def program() -> Program:
    torch.manual_seed(0)
    return load(Tagger().eval(), inputs())


def compressed(dense: Program, setting: str) -> Program:
    counts = {"words": torch.arange(300, 0, -1), "bag": torch.arange(200.0)} if setting == "tiered" else {}
    method = setting.partition(",")[0]
    small, _ = edge_embed.compress(dense, method, modules=["words", "bag"], counts=counts, **SETTINGS[setting])
    assert isinstance(small, Program)
    return small


def float_values(small: Program) -> dict[str, Tensor]:
    return {
        name: value.float().clone().requires_grad_()
        for table in stored_tables(small).values()
        for name, value in table.values
    }


@pytest.fixture(scope="module")
def dense() -> Program:
    return program()


@pytest.mark.parametrize("setting", SETTINGS)
def test_rows_and_outputs_are_those_of_the_compressed_program(setting: str, dense: Program) -> None:
    small = compressed(dense, setting)
    rows = {name: table.rows(float_values(small)).detach() for name, table in stored_tables(small).items()}
    assert {name: tuple(table.shape) for name, table in rows.items()} == {"words": (300, 16), "bag": (200, 16)}
    assert not rows["words"][0].any()
    (expected,) = small.run(*inputs(1))
    (found,) = Student(small.module, rows).run(*inputs(1))
    rounding = 3e-3 if "float16" in SETTINGS[setting].values() else 1e-5  # bags round sums to the type of the rows
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=rounding)


@pytest.mark.parametrize("setting", SETTINGS)
def test_gradients_in_blocks_are_those_of_all_rows(
    setting: str, dense: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = compressed(dense, setting)
    table, values = stored_tables(small)["words"], float_values(small)
    gradient = torch.randn(300, 16, generator=torch.Generator().manual_seed(2))
    own = {name: value for name, value in values.items() if name.startswith("words")}
    table.rows(values).backward(gradient)
    expected = {name: value.grad for name, value in own.items()}
    assert any(each is not None and each.any() for each in expected.values())
    for value in own.values():
        value.grad = None
    monkeypatch.setattr("edge_embed.ops.logits._BLOCK_ELEMENTS", 16 * 70)  # five blocks, the last one smaller
    table.add_gradients(values, gradient)
    for name, value in own.items():
        torch.testing.assert_close(value.grad, expected[name], rtol=1e-4, atol=1e-5)


def test_values_change_rows_and_no_code(dense: Program) -> None:
    small = compressed(dense, "tiered")
    before = weights(small)
    changed = {name: value.detach() * 2 for name, value in float_values(small).items()}
    after = weights(with_values(small, changed))
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert (after[name].dtype, after[name].shape) == (array.dtype, array.shape)
        expected = changed[name].numpy().astype(array.dtype) if name in changed else array
        np.testing.assert_array_equal(after[name], expected)
    assert all(np.array_equal(array, before[name]) for name, array in weights(small).items())
