"""`TieredEmbedding`: tiers that are layers, trained by their own equations, the same rows in every state and file."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import edge_embed
from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers.regularization import regularization_loss
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.program.archive import Archive
from edge_embed.program.module_file import load_module

DIM, SIZES, PADDING = 8, (30, 90, 180), 7
N = sum(SIZES)
EVERY = torch.arange(N)


def layers(dtype: torch.dtype | None = None) -> list[nn.Module]:
    """Return a layer for each tier; the last two have rounding and codebooks."""
    return [
        nn.Embedding(SIZES[0], DIM, dtype=dtype),
        edge_embed.IntegerEmbedding(SIZES[1], DIM, 4, dtype=dtype),
        edge_embed.DPQEmbedding(SIZES[2], DIM, 16, 4, variant="vq", distance_norm=False, dtype=dtype),
    ]


def tier_of(seed: int = 0) -> Tensor:
    sorted_tiers = torch.arange(3).repeat_interleave(torch.tensor(SIZES))
    return sorted_tiers[torch.randperm(N, generator=torch.Generator().manual_seed(seed))]


def table(is_sorted: bool = False, padding_idx: int | None = PADDING, **options) -> TieredEmbedding:
    torch.manual_seed(0)
    return TieredEmbedding(layers(**options), None if is_sorted else tier_of(), padding_idx)


def expected_rows(tiers: list[nn.Module], of_rows: Tensor, padding_idx: int | None) -> Tensor:
    """Return all rows, by counting the rows of each tier one by one."""
    places, rows = [0, 0, 0], []
    for number in of_rows.tolist():
        rows.append(tiers[number](torch.tensor(places[number])))
        places[number] += 1
    if padding_idx is not None:
        rows[padding_idx] = torch.zeros(DIM)
    return torch.stack(rows)


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_rows_are_those_of_the_layers_in_the_order_of_ids(is_sorted: bool, mode: str) -> None:
    torch.manual_seed(0)
    tiers = layers()
    of_rows = tier_of().sort().values if is_sorted else tier_of()
    layer = TieredEmbedding(copy.deepcopy(tiers), of_rows, PADDING).train(mode == "train")
    for each in tiers:
        each.train(mode == "train")
    torch.testing.assert_close(layer(EVERY), expected_rows(tiers, of_rows, PADDING), rtol=0, atol=0)
    assert layer(torch.zeros(0, 2, dtype=torch.int64)).shape == (0, 2, DIM)
    assert layer(torch.tensor(5)).shape == (DIM,)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_states_and_packed_form_have_the_same_rows(is_sorted: bool) -> None:
    layer = table(is_sorted).eval()
    found = layer(EVERY)
    packed = layer.to_packed()
    packed.check()
    assert (packed.tier_map is None) == is_sorted
    np.testing.assert_array_equal(packed.rows(EVERY.numpy()), found.detach().numpy())
    frozen = copy.deepcopy(layer).freeze()
    assert (frozen.frozen, list(frozen.parameters())) == (True, [])
    assert frozen(EVERY).numpy().tobytes() == found.detach().numpy().tobytes()
    again = TieredEmbedding.from_packed(packed)
    assert torch.equal(again(EVERY), found)
    half = copy.deepcopy(layer).freeze("float16")
    assert half.to_packed().value_type == "float16"
    assert 0 < (half(EVERY) - found).abs().max() < 2e-3
    assert half.to_packed().nbytes < packed.nbytes


@pytest.mark.parametrize("hidden_states", [3, 20])
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("rows_of_a_block", [40, 1 << 20], ids=["in blocks", "at once"])
def test_gradients_are_those_of_the_layers_alone(
    hidden_states: int, is_sorted: bool, rows_of_a_block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_embed.ops.logits._BLOCK_ELEMENTS", rows_of_a_block * DIM)
    torch.manual_seed(1)
    ids, bias = torch.randint(N, (4, 5)), torch.randn(N)
    hidden, weight = torch.randn(hidden_states, DIM), torch.randn(hidden_states, N)

    def loss(rows: Tensor, logits: Tensor) -> Tensor:
        return rows.square().sum() + (logits * weight).sum()

    layer = table(is_sorted).train()
    output = edge_embed.TiedOutput(layer, bias)
    (loss(layer(ids), output(hidden)) + regularization_loss(layer)).backward()

    torch.manual_seed(0)
    tiers = [each.train() for each in layers()]
    of_rows = tier_of().sort().values if is_sorted else tier_of()
    place = torch.stack([(of_rows == number).cumsum(0) - 1 for number in range(3)]).gather(0, of_rows[None])[0]
    if of_rows[PADDING] == 2:
        tiers[2].padding_idx = int(place[PADDING])
    rows = expected_rows(tiers, of_rows, PADDING)  # each row is a training pass, which the loss must not count
    tiers[2].regularization_loss()
    tiers[2](place[ids[of_rows[ids] == 2]])
    tiers[2](torch.arange(SIZES[2]))
    (loss(rows[ids], hidden @ rows.T + bias) + regularization_loss(tiers[2])).backward()
    wanted = [tiers[0].weight, tiers[1].latent, tiers[2].query, tiers[2].value]
    for (name, found), expected in zip(layer.named_parameters(), wanted, strict=True):
        # sums of 300 products in another order
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-5, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    assert layer(torch.tensor(PADDING)).eq(0).all()


def test_padding_row_gets_no_gradient_in_its_tier() -> None:
    for padding in (0, 1, 2, 50, N - 1):
        layer = table(padding_idx=padding).train()
        number, place = (int(each) for each in layer._placed(torch.tensor([padding])))
        (layer(EVERY).sum() + edge_embed.TiedOutput(layer)(torch.randn(2, DIM)).sum()).backward()
        own = next(layer.tiers[number].parameters())
        assert own.grad[place].eq(0).all()
        assert own.grad.ne(0).any(1).sum() == SIZES[number] - 1


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_state_of_both_kinds_loads_into_a_new_layer(is_frozen: bool, is_sorted: bool) -> None:
    trained = table(is_sorted).eval()
    if is_frozen:
        trained.freeze()
    torch.manual_seed(5)
    fresh = TieredEmbedding(layers(), None if is_sorted else tier_of(seed=3), PADDING).eval()
    fresh.load_state_dict(trained.state_dict())
    assert fresh.frozen == trained.frozen
    assert torch.equal(fresh(EVERY), trained(EVERY))


def test_state_of_another_table_is_refused_and_changes_nothing() -> None:
    layer = table().eval()
    before = layer(EVERY)
    other = TieredEmbedding([edge_embed.IntegerEmbedding(size + 1, DIM) for size in SIZES]).freeze().state_dict()
    with pytest.raises(RuntimeError, match=rf"got a table of \[{N + 3}, {DIM}\], expected \[{N}, {DIM}\]"):
        layer.load_state_dict(other)
    frozen = table().freeze().state_dict()
    del frozen["tier_1_codes"]
    with pytest.raises(RuntimeError, match=r"Missing key.*tier_1_codes"):
        layer.load_state_dict(frozen)
    wrong = table().state_dict()
    wrong["tier_map"] = torch.full_like(wrong["tier_map"], 0xFF)
    with pytest.raises(RuntimeError, match=r"\stier_map: got a tier for a row after the last one"):
        copy.deepcopy(layer).load_state_dict(wrong)
    wrong = table().state_dict()
    wrong["tier_ranks"] = wrong["tier_ranks"] + 1
    with pytest.raises(RuntimeError, match="tier_ranks: block 0, tier 0: got 1"):
        copy.deepcopy(layer).load_state_dict(wrong)
    assert torch.equal(layer(EVERY), before)


def test_frozen_state_loads_into_a_frozen_layer_with_other_row_scales() -> None:
    other = table().eval()
    with torch.no_grad():
        other.tiers[1].latent.mul_(torch.rand(SIZES[1], 1) * 4)
    frozen = table().freeze()
    sizes = frozen.tier_1_row_scales.shape, other.freeze().tier_1_row_scales.shape
    assert sizes[0] != sizes[1]
    frozen.load_state_dict(other.state_dict())
    assert torch.equal(frozen(EVERY), other(EVERY))


@pytest.mark.parametrize("is_frozen", [False, True])
def test_export_has_the_rows_of_the_layer_and_leaves_it_trainable(is_frozen: bool, tmp_path: Path) -> None:
    layer = table().train()
    if is_frozen:
        layer.freeze()

    class Uses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            bag = [edge_embed.IntegerEmbedding(30, DIM, bits) for bits in (8, 4, 2)]
            self.words, self.output = layer, edge_embed.TiedOutput(layer)
            self.bag = edge_embed.TieredEmbeddingBag(bag, mode="sum")

        def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
            rows = self.words(ids)
            return rows, self.bag(ids % 90), self.output(rows)

    ids = torch.tensor([[0, PADDING, 299], [5, 5, 60]])
    uses = Uses()
    exported = edge_embed.export(uses, "onnx", tmp_path / "uses.onnx", example_inputs=(ids,))
    assert {(each.name, each.method) for each in exported.tables} == {("words", "tiered"), ("bag", "tiered")}
    edge_embed.validate(uses, tmp_path / "uses.onnx", example_inputs=(ids,), iterations=3, warmup=1)
    session = edge_embed.create_session(tmp_path / "uses.onnx")
    rows, _, _ = session.run(None, {session.get_inputs()[0].name: ids.numpy()})
    np.testing.assert_array_equal(rows, uses.eval().words(ids).detach().numpy())
    assert (layer.frozen, len(list(layer.parameters()))) == (is_frozen, 0 if is_frozen else 4)


def test_pickled_module_is_a_known_one(tmp_path: Path) -> None:
    for number, layer in enumerate((table().eval(), table().eval().freeze())):
        torch.save(nn.Sequential(layer), path := tmp_path / f"{number}.pt")
        with path.open("rb") as file:
            loaded = load_module(Archive(path, file.read()))
        assert torch.equal(loaded[0](EVERY), layer(EVERY))


def test_compressed_module_trains_on_in_its_tiers() -> None:
    torch.manual_seed(0)
    dense = nn.Sequential(nn.Embedding(N, DIM, PADDING), nn.Flatten(), nn.Linear(2 * DIM, 3))
    counts = {"0": torch.randperm(N) ** 2}
    small, report = edge_embed.compress(dense, "tiered", modules=["0"], ratio=5, counts=counts, trainable=True)
    layer = small[0].train()
    assert (type(layer), layer.frozen, report.tables[0].method) == (TieredEmbedding, False, "tiered")
    assert layer.to_packed().nbytes == report.tables[0].fidelity.packed_bytes <= N * DIM * 4 / 5
    near = nn.functional.cosine_similarity(layer.eval()(EVERY), dense[0].weight, dim=1)
    assert near[counts["0"].argsort()[N // 2 :]].mean() > near[counts["0"].argsort()[: N // 2]].mean() > 0.3
    ids = torch.tensor([[1, 2], [PADDING, 4]])
    (small.train()(ids).sum() + regularization_loss(small)).backward()
    assert any(each.grad is not None and each.grad.ne(0).any() for each in layer.parameters())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=3, max_size=400), st.data())
def test_tiers_of_counts_are_sorted_by_frequency(counts: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(counts) - 2))
    second = data.draw(st.integers(1, len(counts) - first - 1))
    found = edge_embed.tiers_of_counts(torch.tensor(counts), (first, second, len(counts) - first - second))
    ranked = sorted(range(len(counts)), key=lambda row: (-counts[row], row))
    assert [found[row] for row in ranked] == [0] * first + [1] * second + [2] * (len(counts) - first - second)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tiers: tiers[:2], "tiers: got 2, expected 3 layers: nn.Embedding, "),
        (lambda tiers: [*tiers[:2], nn.Linear(3, DIM)], "tier 2: got a Linear, expected nn.Embedding, "),
        (lambda tiers: [*tiers[:2], edge_embed.TTEmbedding(9, DIM, 2)], "tier 2: got a TTEmbedding, expected"),
        (lambda tiers: [*tiers[:2], tiers[1]], "tier 2: got the layer of another tier, expected one"),
        (
            lambda tiers: [*tiers[:2], nn.Embedding(3, 9)],
            r"tier 2: got 9 columns of torch\.float32 on cpu",
        ),
        (
            lambda tiers: [*tiers[:2], tiers[2].half()],
            r"tier 2: got 8 columns of torch\.float16 on cpu, expected 8 columns",
        ),
        (lambda tiers: [*tiers[:2], tiers[2].freeze()], "tier 2: got a frozen layer, expected a trainable layer"),
        (lambda tiers: [tiers[0], tiers[0], tiers[2]], "tier 1: got the layer of another tier, expected one"),
        (
            lambda tiers: [*tiers[:2], tiers[2].to("meta")],
            r"tier 2: got 8 columns of torch\.float32 on meta",
        ),
        (lambda tiers: [nn.Embedding(30, DIM, 0), *tiers[1:]], "tier 0: got an nn.Embedding with padding_idx=0"),
        (lambda tiers: [nn.Embedding(30, DIM, 4), *tiers[1:]], "tier 0: got an nn.Embedding with padding_idx=4"),
        (
            lambda tiers: [nn.Embedding(30, DIM, sparse=True), *tiers[1:]],
            "tier 0: got .* with sparse=True",
        ),
        (lambda tiers: [nn.Embedding(65_537, DIM), *tiers[1:]], "tier 0: got 65537 rows of floats, expected at most"),
        (lambda tiers: [tiers[0], edge_embed.IntegerEmbedding(9, DIM, 4, 3), tiers[2]], "tier 1: got padding_idx=3"),
    ],
)
def test_wrong_tiers_are_named(change, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        TieredEmbedding(change(layers()))


def test_wrong_arguments_are_named() -> None:
    for wrong, message in (
        (tier_of()[1:], rf"tier_of: got torch.int64 \[{N - 1}\], expected integers \[{N}\]"),
        (tier_of().bool(), "tier_of: got torch.bool"),
        (tier_of().to(torch.complex64), "tier_of: got torch.complex64"),
        (tier_of().to_sparse(), "tier_of: got torch.int64"),
        (tier_of().float(), "tier_of: got torch.float32"),
        ("first", "tier_of: got 'first', expected integers"),
        (tier_of() - 1, "tier_of: got -1 to 1, expected 0 to 2"),
        (2 - tier_of(), r"tier_of: got \[180, 90, 30\] rows of the tiers, expected \[30, 90, 180\]"),
    ):
        with pytest.raises(BadInputError, match=message):
            TieredEmbedding(layers(), wrong)
    with pytest.raises(BadInputError, match=r"padding_idx 300 is outside a table of 300 rows"):
        TieredEmbedding(layers(), padding_idx=N)
    with pytest.raises(TypeError, match="did you mean 'padding_idx'"):
        TieredEmbedding(layers(), padding_id=3)  # type: ignore[call-arg]
    with pytest.raises(BadInputError, match=r"sizes: got \[1, 2\] for 3 counts, expected 3 numbers of rows"):
        edge_embed.tiers_of_counts(torch.ones(3), [1, 2])
    with pytest.raises(BadInputError, match=r"sizes: got \[5\] for 3 counts"):
        edge_embed.tiers_of_counts([1, 2, 3], 5)  # type: ignore[arg-type]
    layer = table()
    for wrong_id in (-1, N):
        for mode in (True, False):
            with pytest.raises(IdOutOfRangeError, match=f"id {wrong_id} is out of range"):
                layer.train(mode)(torch.tensor([wrong_id]))
    with pytest.raises(BadInputError, match="got type 'int8', expected one of float32, float16"):
        layer.freeze("int8")  # type: ignore[arg-type]
    with torch.no_grad():
        layer.tiers[1].latent[4, 1] = torch.inf
    with pytest.raises(BadInputError, match="tier 1: latent: got NaN or infinity in row 4"):
        layer.to_packed()
    assert not layer.frozen


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_rows_have_the_dtype_of_the_layer(dtype: torch.dtype) -> None:
    layer = table(dtype=dtype)
    assert layer(EVERY).dtype == layer.eval()(EVERY).dtype == dtype
    frozen = layer.float().freeze()
    assert frozen.to(dtype)(EVERY).dtype == dtype
    assert frozen.to_packed().value_type == "float32"


def test_compiled_training_step_has_the_same_gradients() -> None:
    layer = table().train()
    ids = torch.tensor([[3, PADDING, 299], [5, 5, 60]])
    layer(ids).square().sum().backward()
    expected = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    torch.compile(layer, backend="aot_eager", fullgraph=True)(ids).square().sum().backward()
    for parameter, gradient in zip(layer.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
