"""Rotation of rows before quantisation reduces the error, and every path of a model rotates them back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import edge_embed
from edge_embed import workflow
from edge_embed.errors import BadInputError
from edge_embed.fitting import dpq, opq
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.fitting.rotation import find_rotation
from edge_embed.layers.regularization import regularization_loss
from edge_embed.layers.rotated import RotatedEmbedding, RotatedOutput

faiss = pytest.importorskip("faiss", reason="faiss is not installed (extra edge-embed[bench])")

SIZES: dict[str, Any] = {"num_codes": 16, "num_groups": 4}


def mixed(n: int = 2000, dim: int = 16, seed: int = 0) -> np.ndarray:
    """Return float32 rows whose columns are mixtures of columns of very different sizes."""
    random = np.random.default_rng(seed)
    sizes = 0.7 ** np.arange(dim)
    return (random.standard_normal((n, dim)) * sizes @ random.standard_normal((dim, dim))).astype(np.float32)


ROWS = mixed()
IDS = torch.tensor([[1, 3, 1999], [7, 7, 0]])


def rotation_of(rows: np.ndarray, num_groups: int, weights: Tensor | None = None) -> np.ndarray:
    weights = torch.ones(len(rows), dtype=torch.float64) if weights is None else weights
    return find_rotation(DenseTable(rows, None), weights, num_groups).double().numpy()


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 60),
    num_groups=st.integers(1, 5),
    width=st.integers(1, 4),
    scale=st.sampled_from([1e-15, 1.0, 1e15]),
    rank=st.integers(0, 20),
    seed=st.integers(0, 99),
)
def test_rotation_is_orthogonal_and_decorrelates_columns(
    n: int, num_groups: int, width: int, scale: float, rank: int, seed: int
) -> None:
    random, dim = np.random.default_rng(seed), num_groups * width
    rows = scale * (random.standard_normal((n, rank)) @ random.standard_normal((rank, dim)) + 1)
    rotation = rotation_of(rows, num_groups)
    # Numbers of a rotation are at most 1 and float32: sums of 20 products have errors up to 20 * 2^-24.
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(dim), rtol=0, atol=1.2e-6)
    centred = (rows - rows.mean(0)) @ rotation.T
    products = centred.T @ centred
    # Each direction has that error, and so has a product of two columns, relative to the energy of all.
    np.testing.assert_allclose(products - np.diag(np.diag(products)), 0, rtol=0, atol=2.4e-6 * np.square(rows).sum())


def test_groups_have_variances_of_equal_products() -> None:
    signs = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T  # no two columns are correlated
    rows = signs * np.sqrt([2.0, 16.0, 4.0, 8.0]) + 100.0  # and a mean, which is no variance
    found = (rows @ rotation_of(rows, 2).T).var(0)
    # The rotation is float32, and the mean is 100 in each column, 50 times the smallest deviation.
    np.testing.assert_allclose(found.reshape(2, 2), [[16, 2], [8, 4]], rtol=1e-4)


def test_rows_count_by_their_weights() -> None:
    rows = np.concatenate([np.random.default_rng(0).standard_normal((50, 3)), 100 * np.ones((50, 3))])
    weights = torch.cat([torch.ones(50), torch.zeros(50)]).double()
    expected = rotation_of(rows[:50], 3)
    same = np.abs(rotation_of(rows, 3, weights) @ expected.T)  # up to signs; both are float32
    np.testing.assert_allclose(same, np.eye(3), rtol=0, atol=1e-6)


@pytest.mark.parametrize("num_codes", [16, 256])
@pytest.mark.parametrize("num_groups", [4, 8])
def test_mixed_columns_have_smaller_error_with_rotation(num_codes: int, num_groups: int) -> None:
    def error(rows: Tensor) -> float:
        return float((rows - torch.from_numpy(ROWS)).norm())

    ids = torch.arange(len(ROWS))
    plain = error(dpq.fit(ROWS, num_codes, num_groups)(ids))
    assert error(opq.fit(ROWS, num_codes, num_groups).rows(ids)) < 0.85 * plain


@pytest.mark.parametrize(("num_groups", "num_codes"), [(4, 16), (8, 16), (4, 256)])
@pytest.mark.slow
def test_rounds_of_faiss_reduce_error_no_further(num_codes: int, num_groups: int) -> None:
    rounds = faiss.OPQMatrix(16, num_groups)
    rounds.pq = faiss.ProductQuantizer(16, num_groups, num_codes.bit_length() - 1)
    rounds.train(ROWS)
    turned = rounds.apply(ROWS)
    peer = dpq.fit(turned, num_codes, num_groups)(torch.arange(len(ROWS))).numpy()
    error = np.linalg.norm(opq.fit(ROWS, num_codes, num_groups).rows(torch.arange(len(ROWS))).numpy() - ROWS)
    assert error < 1.02 * np.linalg.norm(peer - turned)


def test_rows_fewer_than_codes_are_exact_and_padding_row_is_zero() -> None:
    made = opq.fit(ROWS[:30], 32, 4, padding_idx=-1)
    found = made.rows(torch.arange(30)).numpy()
    np.testing.assert_allclose(found[:-1], ROWS[:29], atol=1e-5)
    assert not found[-1].any()


@pytest.mark.parametrize("value_type", ["float32", "float16", "int8"])
def test_module_file_has_bytes_of_report(value_type: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Embedding.from_pretrained(torch.from_numpy(ROWS)))
    small, report = edge_embed.compress(model, "opq", **SIZES, value_type=value_type)
    edge_embed.save(small, tmp_path / "small.pt", IDS)
    (packed,) = workflow.lower(tmp_path / "small.pt").tables.values()
    rotation = small[0].rotation
    assert report.tables[0].fidelity.packed_bytes == packed.nbytes + rotation.nbytes
    assert rotation.dtype == (torch.float32 if value_type == "float32" else torch.float16)
    torch.testing.assert_close(workflow.load(tmp_path / "small.pt").run(IDS)[0], small(IDS))


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.from_numpy(ROWS), padding_idx=0)
        self.head = nn.Linear(16, 2000)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.words(ids))  # type: ignore[no-any-return]


def test_tied_output_layer_uses_same_rotated_rows() -> None:
    small, report = edge_embed.compress(Language(), "opq", **SIZES)
    assert report.tables[0].uses == 2
    assert isinstance(small.words, RotatedEmbedding)
    assert isinstance(small.head, RotatedOutput)
    assert small.head.output.embedding is small.words.embedding
    assert small.head.rotation is small.words.rotation
    rows = small.words(torch.arange(2000))
    hidden = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    logits = hidden @ rows.T + small.head.output.bias
    torch.testing.assert_close(small.head(hidden), logits, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(small.head.topk(hidden, 5).values, logits.topk(5).values, atol=1e-3, rtol=1e-4)


def test_layers_train_on_while_rotation_stays() -> None:
    small, _ = edge_embed.compress(Language(), "opq", **SIZES, trainable=True)
    before = {name: tensor.clone() for name, tensor in small.state_dict().items()}
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    (small(IDS).square().mean() + regularization_loss(small)).backward()
    optimizer.step()
    changed = {name for name, tensor in small.state_dict().items() if not torch.equal(tensor, before[name])}
    assert {"words.embedding.query", "words.embedding.value"} <= changed
    assert not any("rotation" in name for name in changed)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_max_bags_are_refused_with_rotation(mode: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.EmbeddingBag.from_pretrained(torch.from_numpy(ROWS), mode=mode))
    edge_embed.save(model, tmp_path / "model.pt", IDS)
    for source in (model, tmp_path / "model.pt"):
        if mode == "max":
            with pytest.raises(BadInputError, match="got 'opq', but a rotation changes the largest numbers"):
                edge_embed.compress(source, "opq", **SIZES)
            continue
        small = edge_embed.compress(source, "opq", **SIZES).model
        rows = opq.fit(ROWS, **SIZES).rows(IDS)
        found = small(IDS) if source is model else small.run(IDS)[0]
        torch.testing.assert_close(found.double(), getattr(rows, mode)(1), atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_budget_search_counts_rotation_unless_folded(tmp_path: Path) -> None:
    taken = nn.Sequential(nn.Embedding.from_pretrained(torch.from_numpy(ROWS)), nn.Linear(16, 2)).eval()
    alone = nn.Sequential(nn.Embedding.from_pretrained(torch.from_numpy(ROWS)))
    found = {}
    for name, model in (("folded", taken), ("beside", alone)):
        edge_embed.save(model, tmp_path / f"{name}.pt", IDS)
        program, report = edge_embed.compress(tmp_path / f"{name}.pt", "opq", ratio=20, modules=["0"])
        (packed,) = workflow.lower_program(program).tables.values()
        found[name] = report.tables[0].fidelity
        assert found[name].packed_bytes - packed.nbytes == (512 if name == "beside" else 0)
        assert found[name].packed_bytes <= ROWS.nbytes / 20
        _, report = edge_embed.compress(tmp_path / f"{name}.pt", ratio=8, modules=["0"])
        assert ("opq" in {trial.method for trial in report.tables[0].trials}) == (name == "folded")
    assert found["folded"].mean_cosine > found["beside"].mean_cosine


def test_rotation_is_not_folded_into_compressed_weight(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Embedding.from_pretrained(torch.from_numpy(ROWS)), nn.Linear(16, 600)).eval()
    edge_embed.save(model, tmp_path / "model.pt", IDS)
    sizes = {"num_codes": 256, "num_groups": 16}  # a code for each number: almost no error
    program, report = edge_embed.compress(tmp_path / "model.pt", "opq", modules=["0", "1"], **sizes)
    assert [table.method for table in report.tables] == ["opq", "opq"]
    expected = model(IDS).detach()
    assert (program.run(IDS)[0] - expected).norm() < 0.05 * expected.norm()


def test_interrupted_command_reuses_stored_rotation(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Embedding.from_pretrained(torch.from_numpy(ROWS)))
    expected = edge_embed.compress(model, "opq", **SIZES).model[0]

    def interrupt(step: str, done: int, total: int) -> None:
        if "comparison" in step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        edge_embed.compress(model, "opq", **SIZES, checkpoint=tmp_path, progress=interrupt)
    kept = {path.stem.partition(" ")[0] for path in tmp_path.rglob("*.safetensors")}
    assert kept == {"rotation", "centroids", "codes"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opq, "find_rotation", None)  # nothing is computed again
        again = edge_embed.compress(model, "opq", **SIZES, checkpoint=tmp_path).model[0]
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in expected.state_dict().items())


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"num_codes": 1, "num_groups": 4}, "num_codes"),
        ({"num_codes": 4, "num_groups": 3}, "num_groups"),
        ({"num_codes": 4, "num_groups": 17}, "num_groups"),
        ({"num_codes": 4, "num_groups": 4, "padding_idx": 2000}, "padding_idx"),
    ],
)
def test_impossible_sizes_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        opq.fit(ROWS, **sizes)


def test_padding_row_alone_needs_no_rotation() -> None:
    made = opq.fit(ROWS[:1], 2, 4, padding_idx=0)
    assert made.rows(torch.tensor([0])).tolist() == [[0.0] * 16]


def test_layers_refuse_invalid_rotation() -> None:
    layer = edge_embed.DPQEmbedding(8, 4, 2, 2)
    for rotation in (torch.eye(3), torch.eye(4).long()):
        for make in (lambda r: RotatedEmbedding(layer, r), lambda r: RotatedOutput(edge_embed.TiedOutput(layer), r)):
            with pytest.raises(BadInputError, match=r"rotation: got .* expected floats \[4, 4\]"):
                make(rotation)
    with pytest.raises(BadInputError, match="a bag of mode 'max'"):
        RotatedEmbedding(edge_embed.DPQEmbeddingBag(8, 4, 2, 2, mode="max"), torch.eye(4))
