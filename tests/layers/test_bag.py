"""Bags against ``nn.EmbeddingBag`` over the same rows: every mode, both forms, padding, weights, gradients."""

import inspect
import pydoc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import edge_embed
from edge_embed import BadInputError, IdOutOfRangeError
from edge_embed.layers.table import CompressedEmbedding

N, D = 40, 12


def make(method: str, padding_idx: int | None = None, **options) -> CompressedEmbedding:
    torch.manual_seed(0)
    common = {"padding_idx": padding_idx, **options}
    if method == "dpq":
        return edge_embed.DPQEmbeddingBag(N, D, num_codes=5, num_groups=3, variant="vq", **common)
    if method == "ant":
        return edge_embed.ANTEmbeddingBag(N, D, num_anchors=7, **common)
    if method == "integers":
        return edge_embed.IntegerEmbeddingBag(N, D, 3, **common)
    layer = {"tt": edge_embed.TTEmbeddingBag, "tr": edge_embed.TREmbeddingBag}[method]
    return layer(N, D, rank=3, **common)


METHODS = ("dpq", "ant", "tt", "tr", "integers")


def dense_rows(layer: CompressedEmbedding) -> torch.Tensor:
    """Return all rows as the layer looks them up in its present mode."""
    return layer._learning_rows(torch.arange(N)) if layer.learns else layer.use("rows", torch.arange(N))


def reference(layer: CompressedEmbedding, ids, offsets=None, weights=None) -> torch.Tensor:
    return nn.functional.embedding_bag(
        ids,
        dense_rows(layer),
        offsets,
        mode=layer.mode,
        per_sample_weights=weights,
        include_last_offset=layer.include_last_offset,
        padding_idx=layer.padding_idx,
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("state", ["trainable", "frozen"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_bags_match_those_of_torch(method, state, data):
    mode = data.draw(st.sampled_from(["sum", "mean", "max"]), "mode")
    padding = data.draw(st.sampled_from([None, 0, 7]), "padding_idx")
    last = data.draw(st.booleans(), "include_last_offset")
    layer = make(method, padding, mode=mode, include_last_offset=last).eval()
    if state == "frozen":
        layer.freeze()
    dtype = data.draw(st.sampled_from([torch.int32, torch.int64]), "ids dtype")
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=6), "lengths")
    ids = torch.tensor(
        data.draw(st.lists(st.integers(0, N - 1), min_size=sum(lengths), max_size=sum(lengths)), "ids"), dtype=dtype
    )
    offsets = torch.tensor([0, *lengths]).cumsum(0).to(dtype)
    offsets = offsets if last else offsets[:-1]
    weights = torch.randn(len(ids)) if mode == "sum" and data.draw(st.booleans(), "weighted") else None
    torch.testing.assert_close(
        layer(ids, offsets, weights), reference(layer, ids, offsets, weights), atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_rows_of_id_matrix_are_bags(method, mode):
    layer = make(method, 3, mode=mode).eval()
    ids = torch.randint(0, N, (4, 6))
    ids[1] = 3  # only padding: an empty bag
    ids[2, :2] = 3
    bags = layer(ids)
    torch.testing.assert_close(bags, reference(layer, ids))
    assert torch.equal(bags[1], torch.zeros(D))
    assert layer(torch.zeros(0, 6, dtype=torch.int64)).shape == (0, D)
    assert torch.equal(layer(torch.zeros(2, 0, dtype=torch.int64)), torch.zeros(2, D))


@pytest.mark.parametrize("method", ["ant", "tt"])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradients_match_gather_and_reduce(method, mode):
    layer = make(method, 3, mode=mode, dtype=torch.float64).train()
    ids = torch.randint(0, N, (5, 4))
    ids[0, 0] = 3
    weight = torch.randn(5, D, dtype=torch.float64)
    (layer(ids) * weight).sum().backward()
    got = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    (reference(layer, ids) * weight).sum().backward()
    for ours, theirs in zip(got, [parameter.grad for parameter in layer.parameters()], strict=True):
        torch.testing.assert_close(ours, theirs)


def test_sample_weights_get_gradients():
    layer = make("ant", mode="sum").train()
    ids, weights = torch.randint(0, N, (3, 4)), torch.rand(3, 4, requires_grad=True)
    layer(ids, per_sample_weights=weights).sum().backward()
    torch.testing.assert_close(weights.grad, dense_rows(layer).sum(-1)[ids].detach())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 3, 2], r"got 3, then 2 \(bag 1\)"),
        ([0, 9], "got 9, then 4"),
        ([1, 2], "got 1 and 4"),
        ([0, -2], "got 0, then -2"),
    ],
)
def test_offsets_outside_ids_are_refused(training, offsets, message):
    layer = make("dpq").train(training)
    with pytest.raises(BadInputError, match=message):
        layer(torch.arange(4), torch.tensor(offsets))


def test_empty_offsets_and_ids_out_of_range_are_refused():
    with pytest.raises(BadInputError, match="offsets: got none, expected"):
        make("dpq", include_last_offset=True)(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
    nothing = torch.zeros(0, dtype=torch.int64)
    assert make("dpq")(nothing, nothing).shape == (0, D)
    layer = make("dpq", mode="mean")
    with pytest.raises(BadInputError, match=r"got ids \[4\] and offsets None"):
        layer(torch.arange(4))
    with pytest.raises(BadInputError, match=r"got ids \[2, 2\] and offsets \[2\]"):
        layer(torch.zeros(2, 2, dtype=torch.int64), torch.tensor([0, 1]))
    with pytest.raises(BadInputError, match="mode \"sum\", got mode 'mean'"):
        layer(torch.zeros(2, 2, dtype=torch.int64), per_sample_weights=torch.ones(2, 2))
    with pytest.raises(BadInputError, match=r"got shape \[2\], expected \[2, 2\]"):
        make("dpq", mode="sum")(torch.zeros(2, 2, dtype=torch.int64), per_sample_weights=torch.ones(2))
    with pytest.raises(BadInputError, match="one of sum, mean, max, got 'median'"):
        make("dpq", mode="median")
    with pytest.raises(IdOutOfRangeError, match=f"id {N} is out of range"):
        layer(torch.full((1, 2), N))


@pytest.mark.parametrize("method", [method for method in METHODS if method != "integers"])  # float32 scales
def test_bag_of_half_precision_table_is_rounded_once(method):
    layer = make(method, mode="mean").eval().freeze(value_type="float16")
    ids = torch.randint(0, N, (1, 5000))
    exact = layer.to_packed().rows_float64(ids.numpy()).mean(1)
    torch.testing.assert_close(layer(ids).double(), torch.from_numpy(exact), atol=3e-5, rtol=2**-10)


@pytest.mark.parametrize("method", METHODS)
def test_help_shows_arguments_of_layer_and_bag(method):
    bag = type(make(method))
    layer = getattr(edge_embed, bag.__name__.removesuffix("Bag"))
    shown, of_layer = inspect.signature(bag), inspect.signature(layer)
    assert list(shown.parameters) == [*of_layer.parameters, "mode", "include_last_offset"]
    assert all(shown.parameters[name] == parameter for name, parameter in of_layer.parameters.items())
    assert (shown.parameters["mode"].default, shown.parameters["include_last_offset"].default) == ("mean", False)
    title = pydoc.plain(pydoc.render_doc(bag)).partition(f"class {bag.__name__}")[2]
    assert "num_embeddings: int, embedding_dim: int" in title.partition("Method resolution order")[0]


def test_subclass_of_bag_shows_its_own_arguments():
    class Named(edge_embed.DPQEmbeddingBag):
        def __init__(self, name: str) -> None:
            super().__init__(N, D, 5, 3, mode="sum")

    class Same(edge_embed.TTEmbeddingBag):
        pass

    assert list(inspect.signature(Named).parameters) == ["name"]
    assert Named("words").mode == "sum"
    assert inspect.signature(Same) == inspect.signature(edge_embed.TTEmbeddingBag)


def test_example_of_one_bag_is_refused_where_it_fixes_bag_count(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag = edge_embed.TTEmbeddingBag(30, 8, rank=2, include_last_offset=True)

        def forward(self, ids, offsets):
            return self.bag(ids, offsets)

    ids = torch.tensor([1, 2, 3])
    with pytest.raises(
        BadInputError, match="got an example of one bag with include_last_offset, expected at least two"
    ):
        edge_embed.save(Model(), tmp_path / "model.pt", (ids, torch.tensor([0, 3])))
    edge_embed.save(Model(), tmp_path / "model.pt", (ids, torch.tensor([0, 1, 3])))
    edge_embed.export(tmp_path / "model.pt", "onnx", tmp_path / "model.onnx")
    session = edge_embed.create_session(tmp_path / "model.onnx")
    for offsets in ([0, 3], [0, 1, 2, 3], [0]):
        given = ids[: offsets[-1]].numpy()
        (bags,) = session.run(None, {"ids": given, "offsets": torch.tensor(offsets).numpy()})
        assert bags.shape == (len(offsets) - 1, 8)
