"""`IntegerEmbedding`: rows of integers and a scale, learned with their rounding, the same in every state and file."""

import copy
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.fitting import rows as integer_rows
from edge_embed.layers.integers import IntegerEmbedding
from edge_embed.ops import integers
from edge_embed.packed.dpq import PackedDPQ

N, DIM, PADDING = 300, 24, 7


def layer_of(bits: int, seed: int = 0, padding_idx: int | None = PADDING) -> IntegerEmbedding:
    random = torch.Generator().manual_seed(seed)
    rows = torch.randn(N, DIM, generator=random) * torch.logspace(-4, 5, N)[:, None]
    return IntegerEmbedding.from_dense(rows, bits, padding_idx)


def expected_row(row: np.ndarray, bits: int) -> np.ndarray:
    """Return the rounded row by the formulas, in Python's floats."""
    largest, steps = 2 ** (bits - 1) - 1, {2: 1.224, 3: 0.6508, 4: 0.3534, 5: 0.1932, 6: 0.1055, 7: 0.0573, 8: 0.0309}
    row = row.astype(np.float64)
    most, length = np.abs(row).max() / largest, math.sqrt((row**2).mean())
    up = min(max(math.ceil(8 * math.log2(most)), -1008), 960) if most else -1008
    near = min(max(round(8 * math.log2(steps[bits] * length)), -1008), up) if length else -1008

    def rounded(power: int) -> np.ndarray:
        scale = np.float32(2 ** (power / 8))
        return np.clip(np.round(row.astype(np.float32) / scale), -largest, largest) * scale

    return min(map(rounded, (up, (near + up) // 2, near)), key=lambda found: ((found - row) ** 2).sum())


@pytest.mark.parametrize("bits", range(2, 9))
def test_rows_are_those_of_the_formula_in_each_state(bits: int) -> None:
    layer = layer_of(bits).eval()
    found = layer(torch.arange(N))
    expected = np.stack([expected_row(row, bits) for row in layer.latent.detach().numpy()])
    expected[PADDING] = 0
    np.testing.assert_array_equal(found.detach().numpy(), expected)
    assert not (torch.signbit(found) & (found == 0)).any()  # as files have them
    packed = layer.to_packed()
    np.testing.assert_array_equal(packed.rows(np.arange(N)), expected)
    packed.check_codes()
    assert packed.shape.nbytes <= N * (math.ceil(DIM * bits / 8) + 1) + 4 * (2**bits + 256)
    frozen = copy.deepcopy(layer).freeze()
    assert (frozen.frozen, list(frozen.parameters())) == (True, [])
    assert torch.equal(frozen(torch.arange(N)), found)
    learned = layer.train()(torch.arange(N))
    torch.testing.assert_close(learned.detach(), found.detach(), rtol=1e-6, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.integers(0, 2**31), st.floats(-30, 10), st.integers(1, 70))
def test_rows_alone_are_those_among_others(bits: int, seed: int, power: float, dim: int) -> None:
    rows = torch.randn(40, dim, generator=torch.Generator().manual_seed(seed)) * 2.0**power
    together = integers.rounded(rows, bits)
    assert torch.equal(torch.cat([integers.rounded(row[None], bits) for row in rows]), together)
    assert together.isfinite().all()
    packed = integers.pack(rows, bits, None)
    np.testing.assert_array_equal(packed.rows(np.arange(40)), together)


@pytest.mark.parametrize("bits", range(2, 9))
def test_steps_have_the_least_error_for_normal_numbers(bits: int) -> None:
    numbers = torch.linspace(-6, 6, 400_001, dtype=torch.float64)
    density = (-numbers.square() / 2).exp()
    largest = integers.levels(bits)

    def error(step: float) -> float:
        rounded = (numbers / step).round().clamp(-largest, largest) * step
        return float((density * (rounded - numbers).square()).sum())

    step = integers._STEPS[bits]
    assert error(step) <= min(error(0.98 * step), error(1.02 * step))


@pytest.mark.parametrize("bits", range(2, 9))
def test_numbers_of_uneven_rows_are_not_clipped_at_a_loss(bits: int) -> None:
    rows = torch.randn(500, 32, generator=torch.Generator().manual_seed(0)) / torch.arange(1, 33)
    scales = rows.abs().amax(1, keepdim=True) / integers.levels(bits)
    unclipped = (rows / scales).round() * scales
    errors = [(found - rows).square().sum() for found in (integers.rounded(rows, bits), unclipped)]
    assert errors[0] < 1.2 * errors[1]  # steps are up to 2^(1/8) larger, their squared errors 2^(1/4)


def test_gradient_is_that_of_unrounded_rows() -> None:
    layer = layer_of(4).train()
    ids = torch.tensor([[3, 3, PADDING], [200, 4, 3]])
    weight = torch.randn(2, 3, DIM, generator=torch.Generator().manual_seed(1))
    (layer(ids) * weight).sum().backward()
    dense = nn.Embedding.from_pretrained(layer.latent.detach(), freeze=False, padding_idx=PADDING)
    (dense(ids) * weight).sum().backward()
    torch.testing.assert_close(layer.latent.grad, dense.weight.grad)


@pytest.mark.parametrize("bits", [2, 4])
def test_training_reaches_rows_that_rounding_alone_does_not(bits: int) -> None:
    random = torch.Generator().manual_seed(0)
    rows, mixed = torch.randn(50, DIM, generator=random), torch.randn(DIM, 5, generator=random)
    layer, wanted = IntegerEmbedding.from_dense(rows, bits), rows @ mixed
    ids = torch.arange(50)
    before = (layer.eval()(ids) @ mixed - wanted).square().mean().detach()
    optimizer = torch.optim.Adam(layer.train().parameters(), lr=0.03 / integers.levels(bits))
    for _ in range(300):
        optimizer.zero_grad()
        (layer(ids) @ mixed - wanted).square().mean().backward()
        optimizer.step()
    after = (layer.eval()(ids) @ mixed - wanted).square().mean().detach()
    assert after < 0.75 * before


def test_state_of_both_kinds_loads_into_a_new_layer() -> None:
    ids = torch.arange(N)
    for trained in (layer_of(3).eval(), layer_of(3).eval().freeze()):
        fresh = IntegerEmbedding(N, DIM, 3, PADDING).eval()
        fresh.load_state_dict(trained.state_dict())
        assert fresh.frozen == trained.frozen
        assert torch.equal(fresh(ids), trained(ids))
    with pytest.raises(RuntimeError, match=r"size mismatch for stored\.codes"):
        IntegerEmbedding(N, DIM, 5, PADDING).load_state_dict(dict(trained.state_dict()))
    with pytest.raises(RuntimeError, match="size mismatch for the table: bits 3 from the checkpoint, 5 in the current"):
        IntegerEmbedding(N, DIM, 5, PADDING).load_state_dict(layer_of(3).state_dict())


@pytest.mark.parametrize("is_frozen", [False, True])
def test_export_has_the_rows_of_the_layer_bit_for_bit(is_frozen: bool, tmp_path: Path) -> None:
    layer = layer_of(4).eval()
    if is_frozen:
        layer.freeze()
    model = nn.ModuleDict({"words": layer, "bag": edge_embed.IntegerEmbeddingBag(90, DIM, 2, mode="sum")})

    class Uses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.output = model, edge_embed.TiedOutput(layer)

        def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
            rows = self.layers["words"](ids)
            return rows, self.layers["bag"](ids % 90), self.output(rows)

    ids = torch.tensor([[0, PADDING, 299], [5, 5, 60]])
    uses = Uses().eval()
    exported = edge_embed.export(uses, "onnx", tmp_path / "uses.onnx", example_inputs=(ids,))
    assert {table.method for table in exported.tables} == {"dpq"}
    edge_embed.validate(uses, tmp_path / "uses.onnx", example_inputs=(ids,))
    session = edge_embed.create_session(tmp_path / "uses.onnx")
    rows, _, _ = session.run(None, {session.get_inputs()[0].name: ids.numpy()})
    np.testing.assert_array_equal(rows, layer(ids).detach().numpy())


@pytest.mark.parametrize("size", [{"bits": 4}, {"ratio": 5}])
def test_compressed_module_trains_on_with_rounded_rows(size: dict[str, float]) -> None:
    torch.manual_seed(0)
    dense = nn.Sequential(nn.Embedding(N, DIM, PADDING), nn.Flatten(), nn.Linear(2 * DIM, 3))
    small, report = edge_embed.compress(dense, "rows", modules=["0"], trainable=True, **size)
    layer, ids = small[0], torch.tensor([[1, 2], [PADDING, 4]])
    assert (type(layer), layer.bits, report.tables[0].method) == (IntegerEmbedding, 4, "rows")
    error = (layer.eval()(torch.arange(N)) - dense[0].weight).square().mean() / dense[0].weight.square().mean()
    assert error < 0.02  # .0129 is the least of 15 levels
    small.train()(ids).sum().backward()
    assert layer.latent.grad[PADDING].eq(0).all()
    assert layer.latent.grad[[1, 2, 4]].ne(0).any(1).all()


def test_sizes_of_rows_may_differ_by_any_factor() -> None:
    rows = torch.randn(600, DIM, generator=torch.Generator().manual_seed(0)) * torch.logspace(-30, 30, 600)[:, None]
    layer = IntegerEmbedding.from_dense(rows, 8).eval()
    ids = torch.arange(600)
    lengths = rows.double().norm(dim=1)
    for found in (layer(ids), layer.train()(ids)):
        assert ((found.double() - rows).norm(dim=1) < 0.02 * lengths).all()
    packed = layer.to_packed()
    assert len(packed.row_scales) == 256
    kept = lengths > 2.0**-31 * lengths.max()
    np.testing.assert_array_equal(packed.rows(ids[kept].numpy()), layer.eval()(ids[kept]).detach().numpy())
    assert (torch.from_numpy(packed.rows_float64(ids.numpy())) - rows).norm(dim=1).max() < 0.02 * lengths.max()


def test_bag_of_dense_rows_has_their_sums() -> None:
    bag = edge_embed.IntegerEmbeddingBag.from_dense(torch.randn(20, 6), 8, 2, mode="sum", include_last_offset=True)
    assert (bag.mode, bag.include_last_offset, bag.latent[2].abs().max().item()) == ("sum", True, 0)


def test_packed_rows_make_a_frozen_layer() -> None:
    for packed in (layer_of(5).to_packed(), integer_rows.fit(torch.randn(40, 6), 3).to_packed()):
        layer = IntegerEmbedding.from_packed(packed)
        ids = np.arange(packed.num_embeddings)
        assert layer.frozen
        np.testing.assert_array_equal(layer(torch.from_numpy(ids)).numpy(), packed.rows(ids))
    with pytest.raises(BadInputError, match="got a table of other values, expected integers with scales of rows"):
        IntegerEmbedding.from_packed(edge_embed.DPQEmbedding(20, 6, 4, 6).to_packed())


def test_mistakes_are_named() -> None:
    for bits in (1, 9, 4.5, True, "4"):
        with pytest.raises(BadInputError, match="bits"):
            IntegerEmbedding(4, 4, bits)  # type: ignore[arg-type]
    for weight in (np.zeros((3, 4)), torch.zeros(4), nn.Embedding(3, 4), torch.zeros(3, 4).long()):
        with pytest.raises(BadInputError, match=r"weight: got a .*, expected a float tensor \[n, d\]"):
            IntegerEmbedding.from_dense(weight)  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="weight: got NaN or infinity in row 1, expected finite numbers"):
        IntegerEmbedding.from_dense(torch.tensor([[0.0, 1], [2, math.inf]]))
    layer = IntegerEmbedding(4, 4)
    with pytest.raises(IdOutOfRangeError):
        layer(torch.tensor([4]))
    with torch.no_grad():
        layer.latent[2, 1] = math.nan
    assert layer.eval()(torch.tensor([1, 2])).isnan().any(1).tolist() == [False, True]
    with pytest.raises(BadInputError, match="latent: got NaN or infinity in row 2"):
        layer.to_packed()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_rows_have_the_dtype_of_the_layer(dtype: torch.dtype) -> None:
    layer = IntegerEmbedding(N, DIM, 4, dtype=dtype)
    assert layer(torch.tensor([1])).dtype == layer.eval()(torch.tensor([1])).dtype == dtype
    assert isinstance(layer.to_packed(), PackedDPQ)
    assert layer.freeze()(torch.tensor([1])).dtype == dtype
