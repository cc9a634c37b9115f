"""Error feedback: each code is the best one if the columns after it could have any value, and inner products gain."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.fitting import code_assignment, dpq, error_feedback, opq, rows, tiered
from edge_embed.fitting.checkpoints import NOTHING
from edge_embed.fitting.dense_table import DenseTable

UNIT = torch.eye(32, dtype=torch.float64)


def related(n: int = 1500, dim: int = 32, seed: int = 0) -> np.ndarray:
    """Return float32 rows of which two directions have half of the variance."""
    random = np.random.default_rng(seed)
    mixed = random.standard_normal((n, 2)) @ random.standard_normal((2, dim)) / 2**0.5
    return (mixed + random.standard_normal((n, dim))).astype(np.float32)


def triangle_of(weight: np.ndarray) -> torch.Tensor:
    return error_feedback.triangle_of(DenseTable(weight, None), torch.ones(len(weight), dtype=torch.float64))


def error_of_products(weight: np.ndarray, layer: torch.nn.Module) -> float:
    """Return mean_ij (E_j d_i)^2 of the errors d_i, in float64."""
    exact = weight.astype(np.float64)
    errors = exact - layer(torch.arange(len(weight))).detach().double().numpy()
    return float(np.square(errors @ exact.T).mean())


def test_metric_is_unit_matrix_plus_second_moment_of_equal_trace():
    weight, counts = related(50, 4), torch.arange(50.0).double()
    second = (weight.astype(np.float64).T * counts.sqrt().numpy()) @ weight / counts.sqrt().sum().item()
    expected = np.eye(4) + 4 * second / np.trace(second)
    to = error_feedback.triangle_of(DenseTable(weight, None), counts).numpy()
    assert np.array_equal(to, np.triu(to))
    np.testing.assert_allclose(to @ to.T, expected, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_code_of_group_is_best_if_later_columns_are_free(data):
    """The reference solves a least-squares problem for each code, with all later columns as unknowns."""
    groups, width = data.draw(st.integers(1, 5), "D"), data.draw(st.integers(1, 3), "s")
    random = np.random.default_rng(data.draw(st.integers(0, 999), "seed"))
    dim, num_codes = groups * width, data.draw(st.integers(2, 5), "K")
    value = random.standard_normal((groups, num_codes, width))
    weight = random.standard_normal((7, dim)) @ random.standard_normal((dim, dim))
    to = triangle_of(weight)
    chosen = []

    def nearest(group, target):
        keys = torch.from_numpy(value[group]) @ to[group * width :, group * width :][:width, :width]
        chosen.append(torch.cdist(target, keys).argmin(1))
        return torch.from_numpy(value[group])[chosen[-1]]

    error_feedback.quantise(torch.from_numpy(weight), to, width, nearest)
    codes = torch.stack(chosen, 1).numpy()
    for row, own in zip(weight, codes, strict=True):
        fixed = np.empty(0)
        for group, code in enumerate(own):
            least = []
            for entry in value[group]:
                error = row.copy()
                error[: (group + 1) * width] -= np.concatenate([fixed, entry])
                later = to.numpy()[(group + 1) * width :]
                rest = error @ to.numpy()  # the best later columns remove what their rows of R span
                least.append(np.square(rest - later.T @ np.linalg.lstsq(later.T, rest, rcond=None)[0]).sum())
            assert least[code] <= min(least) * (1 + 1e-9) + 1e-12
            fixed = np.concatenate([fixed, value[group, code]])


def test_blocks_of_columns_do_not_change_codes(monkeypatch):
    weight = related(200)
    codes = [dpq.fit(weight, 8, 8).codes]
    monkeypatch.setattr(error_feedback, "_BLOCK", 6)
    codes.append(dpq.fit(weight, 8, 8).codes)
    assert torch.equal(*codes)


@pytest.mark.parametrize(
    "fit",
    [
        lambda weight, **given: dpq.fit(weight, 16, 16, **given),
        lambda weight, **given: dpq.fit(weight, 16, 8, share_subspaces=True, **given),
        lambda weight, **given: rows.fit(weight, 3, **given),
    ],
)
def test_errors_of_inner_products_fall_and_those_of_rows_hardly_rise(fit):
    weight = related()
    fed, nearest = fit(weight), fit(weight, triangle=UNIT)
    assert error_of_products(weight, fed) < 0.75 * error_of_products(weight, nearest)
    errors = [np.square(weight - layer(torch.arange(1500)).detach().numpy()).sum() for layer in (fed, nearest)]
    assert errors[1] < errors[0] < 1.2 * errors[1]


@pytest.mark.parametrize("method", ["opq", "tiered"])
def test_rotated_and_tiered_tables_have_feedback(method, monkeypatch):
    weight, found = related(), []
    for strength in (1.0, 0.0):
        monkeypatch.setattr(error_feedback, "_PRODUCTS", strength)
        if method == "opq":
            fitted = opq.fit(weight, 16, 8)
            found.append(error_of_products(weight, lambda ids, made=fitted: made.layer(ids) @ made.rotation))
        else:
            found.append(error_of_products(weight, tiered.fit(weight, 20_000, counts=torch.arange(1500.0))))
    assert found[0] < 0.8 * found[1]


def test_frequent_rows_count_by_square_roots():
    weight = np.concatenate([np.tile([[4.0, 0, 0, 0]], (100, 1)), np.tile([[0, 4.0, 0, 0]], (100, 1))])
    counts = torch.tensor([16.0, 1]).repeat_interleave(100).double()
    to = error_feedback.triangle_of(DenseTable(weight, None), counts)
    metric = (to @ to.T - torch.eye(4)).diagonal()
    torch.testing.assert_close(metric[0] / metric[1], torch.tensor(4.0).double())


@pytest.mark.parametrize("share_subspaces", [False, True])
def test_rows_of_few_values_are_exact(share_subspaces):
    random = np.random.default_rng(0)
    weight = random.standard_normal((8, 4)).astype(np.float32)[random.integers(0, 8, (300, 8))].reshape(300, 32)
    layer = dpq.fit(weight, 8, 8, share_subspaces=share_subspaces)
    assert np.array_equal(layer(torch.arange(300)).detach().numpy(), weight)


@pytest.mark.parametrize("dim", [1, 3])
def test_tables_without_direction_are_coded(dim):
    zeros = np.zeros((20, dim), np.float32)
    assert not dpq.fit(zeros, 4, 1)(torch.arange(20)).any()
    assert not rows.fit(zeros, 4)(torch.arange(20)).any()
    line = np.outer(np.linspace(-1, 1, 20), np.ones(dim)).astype(np.float32)
    near = rows.fit(line, 8)(torch.arange(20)).numpy()
    np.testing.assert_allclose(near, line, atol=2e-2)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_numbers_of_any_size_get_the_same_integers(size):
    weight = related(300)
    scaled = (weight.astype(np.float64) * 2.0 ** round(np.log2(size))).astype(np.float32)
    assert np.array_equal(rows.fit(scaled, 4).to_packed().codes, rows.fit(weight, 4).to_packed().codes)


def test_fed_codes_are_the_same_with_any_number_of_threads():
    weight, threads = related(3000), torch.get_num_threads()
    codes = []
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            codes.append(dpq.fit(weight, 16, 4, seed=5).codes)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*codes)


def test_kernel_and_rule_select_the_same_codes(monkeypatch):
    weight = related(500)
    with_kernel = dpq.fit(weight, 16, 4)
    value, triangle = with_kernel.value.float(), triangle_of(weight)
    monkeypatch.setattr(code_assignment.training_library, "serves", lambda *tensors: False)
    table = DenseTable(weight, None)
    by_rule = code_assignment.packed_codes(table, 1.0, value, 4, triangle, NOTHING, lambda done: None)
    assert np.array_equal(by_rule, with_kernel.to_packed().codes)
