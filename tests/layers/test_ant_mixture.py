"""ANTMixtureEmbedding: several anchor sets, from training to the exported file, and its stored size."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed import ANTEmbedding, ANTMixtureEmbedding, BadInputError, ProximalOptimizer
from edge_embed.inspection.program_file import inspect_program
from edge_embed.ops.ant_mixture import sparsemax
from edge_embed.packed.file import save_tables

N, D, SETS = 60, 8, (3, 4)
IDS = torch.arange(N)
MIXINGS = ["linear", "softmax", "sparsemax"]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def optimizer_of(model: nn.Module, penalty: float) -> ProximalOptimizer:
    return ProximalOptimizer(edge_embed.Yogi(model.parameters(), lr=0.03), model, penalty)


def trained(mixing: str, penalty: float, steps: int = 300) -> tuple[ANTMixtureEmbedding, float]:
    """Train rows of 7 kinds and return the layer with its remaining error."""
    layer = ANTMixtureEmbedding(N, D, SETS, mixing, padding_idx=0)
    optimizer, wanted = optimizer_of(layer, penalty), torch.randn(7, D)[IDS % 7]
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (layer(IDS[1:]) - wanted[1:]).square().mean()
        loss.backward()
        optimizer.step()
    return layer, loss.item()


@pytest.mark.parametrize(("mixing", "penalty"), [("linear", 1e-4), ("softmax", 1e-3)])
def test_mixture_learns_and_becomes_sparse_with_proximal_step(mixing, penalty):
    dense, loss = trained(mixing, 0.0)
    sparse, sparse_loss = trained(mixing, penalty)
    assert loss < 0.2
    assert sparse_loss < 0.25
    assert sparse.to_packed().shape.num_nonzeros < 0.8 * dense.to_packed().shape.num_nonzeros


def test_sparsemax_is_sparse_without_penalty():
    (softmax, _), (sparsemax_, loss) = trained("softmax", 0.0), trained("sparsemax", 0.0)
    assert loss < 0.2
    assert sparsemax_.to_packed().shape.num_nonzeros < 0.9 * softmax.to_packed().shape.num_nonzeros


@pytest.mark.parametrize("mixing", MIXINGS)
def test_packed_rows_match_formula(mixing):
    layer, _ = trained(mixing, 1e-4, steps=50)
    parts = layer.transform.detach().double().clamp(min=0).split(SETS, 1)
    mix = {"linear": lambda part: part, "softmax": lambda part: part.softmax(1), "sparsemax": sparsemax}[mixing]
    expected = sum(mix(part) @ a.double() for part, a in zip(parts, layer.anchors.detach().split(SETS), strict=True))
    expected[0] = 0
    np.testing.assert_allclose(layer.to_packed().rows_float64(IDS.numpy()), expected.numpy(), atol=3e-6)
    torch.testing.assert_close(layer.train()(IDS).double(), expected, atol=3e-6, rtol=0)
    torch.testing.assert_close(layer.eval()(IDS).double(), expected, atol=3e-6, rtol=0)
    torch.testing.assert_close(layer.freeze()(IDS).double(), expected, atol=3e-6, rtol=0)


@pytest.mark.parametrize("mixing", MIXINGS)
def test_exported_mixture_is_ant_table_with_same_rows(mixing, tmp_path: Path):
    layer, _ = trained(mixing, 1e-4, steps=50)
    path = edge_embed.save(layer, tmp_path / "model.pt", IDS[:4])
    edge_embed.export(path, "onnx", tmp_path / "out.onnx")
    assert edge_embed.validate(path, tmp_path / "out.onnx").passed
    for portable in (False, True):
        session = edge_embed.create_session(tmp_path / "out.onnx", portable=portable)
        (rows,) = session.run(None, {"ids": IDS.numpy()})
        np.testing.assert_allclose(rows, layer.eval()(IDS).detach().numpy(), atol=1e-6)
    (table,) = edge_embed.lower(path).tables.values()
    assert table.method == "ant"
    for name, array in layer.to_packed().tensors().items():
        assert array.tobytes() == table.tensors()[name].tobytes(), name


@pytest.mark.parametrize("mixing", MIXINGS)
def test_inspect_counts_stored_nonzeros_and_anchors(mixing, tmp_path: Path):
    layer, _ = trained(mixing, 1e-4, steps=50)
    path = edge_embed.save(layer, tmp_path / "model.pt", IDS[:4])
    (table,) = inspect_program(path, verify=True).tables
    packed = layer.to_packed()
    assert table.attributes["num_nonzeros"] == packed.shape.num_nonzeros
    assert table.attributes["num_anchors"] == packed.shape.num_anchors


@pytest.mark.parametrize(
    ("weight_type", "width", "step"), [("float32", 4, 0), ("float16", 2, 2**-11), ("int8", 1, 2**-8)]
)
def test_softmax_mixture_stores_every_weight_in_file(weight_type, width, step, tmp_path: Path):
    """The file holds all n A weights, each with its anchor id; the reported ratio counts them."""
    layer = ANTMixtureEmbedding(2000, 32, (10, 10))
    with torch.no_grad():
        layer.transform.copy_(torch.rand(2000, 20) * 5)
    rows = layer.eval()(torch.arange(2000)).detach().numpy()
    packed = layer.freeze(weight_type).to_packed()
    count = packed.shape.num_nonzeros
    assert 0.9 * 2000 * 20 < count <= 2000 * 20
    assert packed.nbytes == count * (width + 1) + 2001 * 4 + 4 + (20 + 2) * 32 * 4
    save_tables(tmp_path / "table.safetensors", {"table": packed})
    assert packed.nbytes < (tmp_path / "table.safetensors").stat().st_size < packed.nbytes + 4096
    bound = step * np.abs(packed.anchors.astype(float)).sum(0).max() + 1e-6  # no weight is above 1
    assert np.abs(packed.rows_float64(np.arange(2000)) - rows).max() < bound


def test_run_resumed_equals_uninterrupted_run():
    runs = []
    for stop in (None, 4):
        torch.manual_seed(1)
        layer = ANTMixtureEmbedding(N, D, SETS)
        optimizer = optimizer_of(layer, 1e-3)
        for step in range(8):
            if step == stop:
                buffer = io.BytesIO()
                torch.save({"layer": layer.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
                buffer.seek(0)
                saved = torch.load(buffer, weights_only=True)
                layer = ANTMixtureEmbedding(N, D, SETS)
                optimizer = optimizer_of(layer, 1e-3)
                layer.load_state_dict(saved["layer"])
                optimizer.load_state_dict(saved["optimizer"])
            optimizer.zero_grad()
            layer(IDS[step : step + 9]).square().sum().backward()
            optimizer.step()
        runs.append(layer)
    for one, other in zip(*(layer.parameters() for layer in runs), strict=True):
        assert torch.equal(one, other)


def test_linear_mixture_equals_one_set_side_by_side():
    mixture, single = ANTMixtureEmbedding(N, D, SETS, "linear", padding_idx=2), edge_embed.ANTEmbedding(N, D, 7, 2)
    single.load_state_dict(mixture.state_dict())
    assert torch.equal(mixture(IDS), single(IDS))
    for name, array in single.to_packed().tensors().items():
        assert array.tobytes() == mixture.to_packed().tensors()[name].tobytes()


@pytest.mark.parametrize("mixing", MIXINGS)
def test_bags_are_means_of_rows(mixing):
    layer = edge_embed.ANTMixtureEmbeddingBag(N, D, SETS, mixing, padding_idx=0)
    ids = torch.tensor([[1, 5, 0], [7, 7, 9]])
    expected = nn.functional.embedding_bag(ids, layer.use("rows", IDS), mode="mean", padding_idx=0)
    for state in (layer.train(), layer.eval(), layer.freeze()):
        torch.testing.assert_close(state(ids), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mixing", MIXINGS)
def test_output_layers_multiply_with_every_row(mixing):
    layer, hidden = ANTMixtureEmbedding(N, D, SETS, mixing, padding_idx=3), torch.randn(2, D)
    for state in (layer.train(), layer.eval(), layer.freeze()):
        torch.testing.assert_close(edge_embed.TiedOutput(state)(hidden), hidden @ state(IDS).t(), rtol=1e-4, atol=1e-5)


def test_sets_start_from_their_own_vectors():
    layer, first, second = ANTMixtureEmbedding(N, D, SETS), torch.randn(3, D), torch.randn(4, D)
    layer.start_from(vectors=torch.cat((first, second)))
    assert all(map(torch.equal, layer.anchors.split(layer.set_sizes), (first, second)))
    with pytest.raises(BadInputError, match="got ids for a softmax mixture, expected none; give only vectors"):
        layer.start_from(torch.arange(7))
    linear = ANTMixtureEmbedding(N, D, SETS, "linear").start_from(torch.arange(7))
    torch.testing.assert_close(linear(IDS[:7]), linear.anchors)


def test_anchor_search_leaves_mixtures_unchanged():
    model = nn.ModuleList([edge_embed.ANTEmbedding(N, D, 2), ANTMixtureEmbedding(N, D, SETS)])
    search = edge_embed.AnchorSearch(optimizer_of(model, 1e-3), 0.1)
    assert search.step(1.0)
    assert [layer.num_anchors for layer in model] == [3, 7]


def test_low_rank_factorisation_is_linear_mixture_of_single_anchors():
    """Appendix I without sparsity: the rank is at most M; the error lies between the best of rank M and of M - 1.

    As T >= 0, one anchor can be spent on signs: T V = (T + c) V + c (-V_1 - ... ), for a large c.
    """
    wanted = torch.randn(30, 4) @ torch.randn(4, 10) + 0.3 * torch.randn(30, 10)
    layer = ANTMixtureEmbedding(30, 10, (1,) * 4, "linear").start_from(vectors=torch.randn(4, 10))
    optimizer = ProximalOptimizer(torch.optim.Adam(layer.parameters(), 0.02), layer, penalty=0)
    for _ in range(1500):
        optimizer.zero_grad()
        error = (layer(torch.arange(30)) - wanted).square().sum()
        error.backward()
        optimizer.step()
    assert int(torch.linalg.matrix_rank(layer(torch.arange(30)))) == 4
    best = torch.linalg.svdvals(wanted).square().flip(0).cumsum(0).flip(0)  # [k]: the least error of rank k
    assert best[4] < error.item() < best[3]


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((), {}, "set_sizes must be the size of each set, such as .10, 20., got "),
        (7, {}, "set_sizes must be .* got 7"),
        ((3, 0), {}, r"set_sizes\[1\] must be at least 1, got 0"),
        ((3, 2.0), {}, r"set_sizes\[1\] must be an integer, got 2\.0"),
        (SETS, {"mixing": "entmax"}, "mixing must be one of linear, softmax, sparsemax, got 'entmax'"),
    ],
)
def test_invalid_arguments_of_mixture_are_refused(sizes, options, message):
    with pytest.raises(BadInputError, match=message):
        ANTMixtureEmbedding(N, D, sizes, **options)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            lambda: ANTMixtureEmbedding(30, 8, (6, 4)),
            r"mixing softmax of sets of \(4, 6\) from the checkpoint, softmax of",
        ),
        (lambda: ANTMixtureEmbedding(30, 8, (4, 6), "sparsemax"), "from the checkpoint, sparsemax of sets of"),
        (lambda: ANTMixtureEmbedding(30, 8, (4, 6), "linear"), "from the checkpoint, linear in the current model"),
        (lambda: ANTEmbedding(30, 8, 10), "from the checkpoint, linear in the current model"),
    ],
)
def test_checkpoint_of_another_mixture_is_refused(frozen, other, message):
    """The tensors of both have the same names and, except some frozen ones, the same shapes."""
    saved, layer = ANTMixtureEmbedding(30, 8, (4, 6)), other()
    if frozen:
        saved.freeze()
    before = layer(torch.arange(30)).detach()
    with pytest.raises(RuntimeError, match=message):
        layer.load_state_dict(saved.state_dict())
    assert torch.equal(layer(torch.arange(30)), before)
    same = ANTMixtureEmbedding(30, 8, (4, 6))
    same.load_state_dict(saved.state_dict())
    assert torch.equal(same.eval()(torch.arange(30)), saved.eval()(torch.arange(30)))
