"""Torch functions of ANT: they agree with the numpy form, and the operators pass the checks of torch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.ops import ant
from edge_embed.packed.ant import PackedANT

from ..largest_tensor import LargestTensor

EPS = {"float32": 2.0**-23, "float16": 2.0**-10}
SHAPES = [(), (1,), (0,), (3,), (2, 3), (0, 2), (1, 2, 1)]
NUM_ANCHORS = [1, 2, 7, 256, 257, 300, 65537]


def assert_close_to_oracle(rows: torch.Tensor, packed: PackedANT, ids: np.ndarray) -> None:
    """Assert an error of at most 4 eps of the sum of absolute terms plus half of the smallest number."""
    value_type = str(packed.anchors.dtype)
    tolerance = 4 * EPS[value_type] * packed.magnitudes(ids) + np.finfo(value_type).smallest_subnormal / 2
    assert rows.shape == packed.rows(ids).shape
    assert (np.abs(rows.double().numpy() - packed.rows_float64(ids)) <= tolerance).all()


def sparse_table(rows: int, num_anchors: int, width: int, density: float, seed: int, value_type: str = "float32"):
    random = np.random.default_rng(seed)
    transform = random.random((rows, num_anchors), np.float32) * (random.random((rows, num_anchors)) < density)
    return transform.astype(np.float32), random.standard_normal((num_anchors, width)).astype(value_type)


@st.composite
def tables(draw: st.DrawFn) -> PackedANT:
    rows, num_anchors = draw(st.integers(1, 12)), draw(st.sampled_from(NUM_ANCHORS))
    width, seed = draw(st.sampled_from([1, 3, 8, 33])), draw(st.integers(0, 2**31))
    density = draw(st.sampled_from([0.0, 0.01, 0.3, 1.0])) if num_anchors < 1000 else 0.001
    value_type, weight_type = draw(st.sampled_from(list(EPS))), draw(st.sampled_from(["float32", "float16", "int8"]))
    transform, anchors = sparse_table(rows, num_anchors, width, density, seed, value_type)
    return PackedANT.from_dense(transform, anchors, draw(st.none() | st.integers(0, rows - 1)), weight_type)


def frozen_arguments(packed: PackedANT) -> tuple:
    return *(torch.from_numpy(array) for array in packed.tensors().values()), packed.padding_idx


@given(tables(), st.sampled_from(SHAPES), st.booleans(), st.integers(0, 2**31))
def test_frozen_rows_match_packed_form(table, shape, narrow, seed):
    ids = np.random.default_rng(seed).integers(0, table.num_embeddings, shape).astype(np.int32 if narrow else np.int64)
    given_ids = torch.from_numpy(np.asarray(ids))
    rows = ant.frozen_rows(given_ids, *frozen_arguments(table))
    assert rows.dtype == torch.from_numpy(table.anchors).dtype
    assert_close_to_oracle(rows, table, ids)
    assert torch.ops.edge_embed.ant_frozen_rows(given_ids, *frozen_arguments(table)).equal(rows)
    if table.padding_idx is not None:
        assert not any(rows[given_ids == table.padding_idx].numpy().tobytes())


@given(st.sampled_from(SHAPES), st.sampled_from([1, 5, 300]), st.none() | st.integers(0, 8), st.integers(0, 2**31))
def test_trainable_rows_match_packed_form(shape, num_anchors, padding_idx, seed):
    transform, anchors = map(torch.from_numpy, sparse_table(9, num_anchors, 6, 0.4, seed))
    ids = np.random.default_rng(seed).integers(0, 9, shape)
    packed = ant.pack(transform, anchors, padding_idx)
    assert_close_to_oracle(
        ant.trainable_rows(torch.from_numpy(np.asarray(ids)), transform, anchors, padding_idx), packed, ids
    )


def test_weights_below_zero_count_as_zero():
    transform, anchors = torch.tensor([[1.0, -2.0], [-3.0, -0.0]]), torch.tensor([[1.0, 2.0], [10.0, 20.0]])
    ids = torch.tensor([0, 1])
    assert ant.trainable_rows(ids, transform, anchors, None).tolist() == [[1, 2], [0, 0]]
    packed = ant.pack(transform, anchors, None)
    assert packed.weights.tolist() == [1.0]
    assert packed.rows([0, 1]).tolist() == [[1, 2], [0, 0]]
    assert transform[0, 1] == -2  # the weights of the layer are unchanged


@pytest.mark.parametrize("nonzeros", [31, 32, 33, 64, 200, 4000])
@pytest.mark.parametrize("value_type", EPS)
def test_long_rows_of_one_sign_stay_within_tolerance(nonzeros, value_type):
    """A single running float32 sum of 4,000 positive numbers would exceed the tolerance."""
    random = np.random.default_rng(nonzeros)
    transform = np.zeros((3, 4000), np.float32)
    transform[1, :nonzeros] = 1 + random.random(nonzeros)
    anchors = (1 + random.random((4000, 5))).astype(value_type)
    if value_type == "float16":
        transform /= 4000
    packed = PackedANT.from_dense(transform, anchors)
    ids = np.array([2, 1, 0, 1])
    assert_close_to_oracle(ant.frozen_rows(torch.from_numpy(ids), *frozen_arguments(packed)), packed, ids)
    rows = ant.trainable_rows(torch.from_numpy(ids), torch.from_numpy(transform), torch.from_numpy(anchors), None)
    assert_close_to_oracle(rows, packed, ids)


@pytest.mark.parametrize("bad", [-1, 6, 2**40])
def test_operators_refuse_ids_out_of_range(bad):
    transform, anchors = sparse_table(6, 3, 4, 0.5, 0)
    ids = torch.tensor([0, bad])
    frozen = frozen_arguments(PackedANT.from_dense(transform, anchors))
    for call in (
        lambda: ant.FROZEN.rows(ids, *frozen),
        lambda: ant.TRAINABLE.rows(ids, torch.from_numpy(transform), torch.from_numpy(anchors), None),
    ):
        with pytest.raises(IdOutOfRangeError, match=f"id {bad} is out of range: expected 0 to 5"):
            call()


def csr(offsets: list[int], anchor_ids: list[int], dtype: torch.dtype = torch.uint8) -> tuple:
    """Return the arguments of a table of two anchors, [1] and [10], with weights of 1."""
    return (
        torch.tensor(offsets, dtype=torch.int32),
        torch.tensor(anchor_ids).to(dtype),
        torch.ones(len(anchor_ids)),
        torch.ones(1),
        torch.tensor([[1.0], [10.0]]),
        None,
    )


@pytest.mark.parametrize("offsets", [[0, 1, 4], [0, -1, 3], [0, 2, 1], [2**31 - 1, 0, 1], [-(2**31), 2, 3]])
def test_hostile_row_offsets_are_refused_with_row(offsets):
    hostile = csr(offsets, [0, 1, 1])
    with pytest.raises(BadInputError, match=r"row_offsets: row \d: got .* expected an increasing range within 0 to 3"):
        ant.frozen_rows(torch.tensor([0, 1]), *hostile)


@pytest.mark.parametrize(("dtype", "bad"), [(torch.uint8, 255), (torch.uint16, 40_000), (torch.uint32, 2**32 - 1)])
def test_hostile_anchor_ids_are_refused_with_row(dtype, bad):
    hostile = csr([0, 1, 3], [0, 1, bad], dtype)
    assert ant.frozen_rows(torch.tensor([0, 0]), *hostile).tolist() == [[1], [1]]  # valid rows are still returned
    with pytest.raises(BadInputError, match=f"anchor_ids: row 1: got {bad}, expected 0 to 1"):
        ant.frozen_rows(torch.tensor([0, 1]), *hostile)


@pytest.mark.parametrize("ids", [torch.tensor(3), torch.tensor([[0, 5], [1, 1]], dtype=torch.int32),
                                 torch.zeros(0, 2, dtype=torch.int64)], ids=["rank0", "int32", "empty"])  # fmt: skip
@pytest.mark.parametrize("padding_idx", [None, 1])
def test_operators_pass_checks_of_torch(ids, padding_idx):
    """Torch checks the schema, fake tensors and dynamic tracing."""
    transform, anchors = sparse_table(6, 300, 4, 0.1, 1)
    frozen = frozen_arguments(PackedANT.from_dense(transform, anchors, padding_idx))
    torch.library.opcheck(ant.FROZEN.rows, (ids, *frozen))
    torch.library.opcheck(
        ant.TRAINABLE.rows, (ids, torch.from_numpy(transform), torch.from_numpy(anchors), padding_idx)
    )


@pytest.mark.parametrize("use", ["bag", "logits"])
def test_bags_and_logits_match_rows(use):
    transform, anchors = sparse_table(6, 300, 4, 0.1, 2)
    packed = PackedANT.from_dense(transform, anchors, 1)
    rows = torch.from_numpy(packed.rows(np.arange(6)))
    given_to = {
        "bag": (torch.tensor([0, 1, 5, 2]), torch.tensor([0, 2, 2, 4]), None, "sum"),
        "logits": (torch.ones(2, 4),),
    }
    expected = {"bag": torch.stack([rows[0], torch.zeros(4), rows[5] + rows[2]]), "logits": rows.sum(1).expand(2, 6)}
    table = (torch.from_numpy(transform), torch.from_numpy(anchors), 1)
    for operators, arguments in ((ant.FROZEN, frozen_arguments(packed)), (ant.TRAINABLE, table)):
        torch.testing.assert_close(operators.uses[use](*given_to[use], *arguments), expected[use])


def test_memory_of_lookup_depends_on_ids_not_on_table():
    """The lookup in a table of a million rows makes no tensor of the table's size."""
    offsets = torch.arange(0, 3_000_001, 3, dtype=torch.int32)
    table = offsets, torch.arange(3_000_000).remainder(3).to(torch.uint8), torch.ones(3_000_000), torch.ones(1)
    with LargestTensor() as largest:
        rows = ant.frozen_rows(torch.tensor([999_999, 7]), *table, torch.eye(3), None)
    assert rows.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert 0 < largest.numel < 100


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_weights_of_unsupported_types_are_refused(dtype):
    with pytest.raises(BadInputError, match=rf"{dtype}.*call \.float\(\)"):
        ant.pack(torch.ones(2, 3, dtype=dtype), torch.ones(3, 4, dtype=dtype), None)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["transform", "anchors"])
def test_weights_that_are_not_finite_are_refused(name, bad):
    weights = {"transform": torch.ones(2, 3), "anchors": torch.ones(3, 4)}
    weights[name][1, 2] = bad
    with pytest.raises(BadInputError, match=name):
        ant.pack(**weights, padding_idx=None)


def test_progress_ends_with_all_rows():
    seen: list[int] = []
    ant.pack(torch.ones(7, 3), torch.ones(3, 4), None, on_block=seen.append)
    assert seen[-1] == 7


@given(tables(), st.sampled_from(["float32", "float16", "int8"]))
def test_changed_weight_type_equals_packing_of_dense_transform(table, weight_type):
    dense = np.zeros((table.num_embeddings, len(table.anchors)), np.float32)
    rows = np.repeat(np.arange(table.num_embeddings), np.diff(table.row_offsets))
    dense[rows, table.anchor_ids] = table.weights * table.weight_scale
    expected = PackedANT.from_dense(dense, table.anchors, table.padding_idx, weight_type)
    got = ant.with_weight_type(table, weight_type)
    for name, array in expected.tensors().items():
        assert got.tensors()[name].dtype == array.dtype
        assert np.array_equal(got.tensors()[name], array), name


def test_empty_table_is_named_in_log(caplog):
    transform = torch.zeros(4, 3)
    assert not ant.pack(transform, torch.ones(3, 2), None).rows(np.arange(4)).any()
    assert "every row is zero" in caplog.text
    caplog.clear()
    transform[2, 1] = 1e-30
    ant.pack(transform, torch.ones(3, 2), None)
    assert not caplog.text
