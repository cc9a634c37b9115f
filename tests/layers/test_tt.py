"""TTEmbedding: shapes, ranks, initialisation, checkpoints and training."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.layers.tt import TTEmbedding


def test_automatic_shapes_match_paper():
    layer = TTEmbedding(25_000, 256, 16)
    assert layer.row_shape == (25, 30, 40)
    assert layer.col_shape == (4, 8, 8)
    assert [tuple(core.shape) for core in layer.cores] == [(25, 1, 4, 16), (30, 16, 8, 16), (40, 16, 8, 1)]
    assert 25_000 * 256 // sum(core.numel() for core in layer.cores) == 93  # "TT1" in table 1


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_number_of_cores_follows_option_and_shape(count):
    layer = TTEmbedding(1000, 64, 4, num_cores=count)
    assert len(layer.cores) == count
    assert layer(torch.tensor([0, 999])).shape == (2, 64)
    assert len(TTEmbedding(1000, 64, 4, row_shape=[4] * count if count > 4 else [32] * count).cores) == count
    assert len(TTEmbedding(1000, 64, 4, col_shape=[64] + [1] * (count - 1)).cores) == count


def test_rank_may_be_given_for_each_place():
    layer = TTEmbedding(1000, 64, [3, 5], row_shape=[10, 10, 10], col_shape=[4, 4, 4])
    assert layer.ranks == (1, 3, 5, 1)
    assert layer.to_packed().shape.ranks == (1, 3, 5, 1)


def test_ranks_are_cut_to_matrix_size():
    """A larger rank would store unused numbers: the matrix that R_k separates has no more rows or columns."""
    layer = TTEmbedding(24, 12, 1000, row_shape=[2, 3, 4], col_shape=[2, 2, 3])
    assert layer.ranks == (1, 4, 12, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_cores": 1}, "number of cores: got 1, expected 2 to 6"),
        ({"num_cores": 7}, "number of cores: got 7, expected 2 to 6"),
        ({"num_cores": 3, "row_shape": [4, 5]}, r"the same number of cores, got \[2, 3\]"),
        ({"row_shape": [4, 5], "col_shape": [2, 2, 3]}, r"the same number of cores, got \[2, 3\]"),
        ({"row_shape": 5}, "row_shape: got 5, expected a list of integers"),
        ({"col_shape": 5}, "col_shape: got 5, expected a list of integers"),
        ({"row_shape": [4, 4]}, r"row_shape.*16.*20"),
        ({"row_shape": [0, 40]}, r"row_shape\[0\] must be at least 1, got 0"),
        ({"row_shape": [4, 5.0]}, r"row_shape\[1\] must be an integer, got 5.0"),
        ({"col_shape": [2, 5]}, r"col_shape: got \[2, 5\] with product 10, expected embedding_dim, 12"),
        ({"rank": 0}, "rank must be at least 1, got 0"),
        ({"rank": [2, 2, 2]}, r"rank \[2, 2, 2\] has 3 numbers, expected 2"),
        ({"num_embeddings": 10**12}, "row_shape: got none for 1000000000000 rows, expected one for more than "),
        ({"rank": [2, -1]}, r"rank\[1\] must be at least 1, got -1"),
    ],
)
def test_impossible_sizes_are_refused_with_numbers(options, message):
    with pytest.raises(BadInputError, match=message):
        TTEmbedding(**{"num_embeddings": 20, "embedding_dim": 12, "rank": 4} | options)


def test_sizes_that_cannot_be_packed_are_refused_before_training():
    with pytest.raises(BadInputError, match="use smaller ranks"):
        TTEmbedding(10**8, 4096, 100_000, row_shape=[10**4, 10**4], col_shape=[64, 64], device="meta")


@st.composite
def layers(draw: st.DrawFn) -> TTEmbedding:
    count = draw(st.integers(2, 6))
    rows, columns = draw(st.integers(1, 60)), draw(st.integers(1, 24))
    rank = draw(st.integers(1, 6) | st.lists(st.integers(1, 6), min_size=count - 1, max_size=count - 1))
    torch.manual_seed(draw(st.integers(0, 2**31)))
    return TTEmbedding(rows, columns, rank, num_cores=count)


@given(layers())
def test_packed_form_of_any_sizes_repeats_rows(layer):
    ids = torch.arange(layer.num_embeddings)
    packed = layer.to_packed()
    rows = layer.eval()(ids).detach()
    assert rows.shape == (layer.num_embeddings, layer.embedding_dim)
    tolerance = 4 * 2.0**-23 * packed.magnitudes(ids.numpy())
    assert (np.abs(rows.double().numpy() - packed.rows_float64(ids.numpy())) <= tolerance).all()


def table_of(rows: int, frozen: bool) -> nn.Module:
    layer = TTEmbedding(rows, 12, 3, row_shape=[10, 10, 10])
    return nn.ModuleDict({"words": layer.freeze() if frozen else layer})


def saved_and_loaded(state: dict) -> dict:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_checkpoint_of_another_number_of_rows_is_refused(frozen, strict):
    """nn.Embedding refuses it too; cores of 1,000 and of 990 rows have the same shapes."""
    state = saved_and_loaded(table_of(1000, frozen).state_dict())
    target = table_of(990, False)
    before = target["words"](torch.arange(990)).detach()
    message = "size mismatch for words: num_embeddings 1000 from the checkpoint, 990 in the current model"
    with pytest.raises(RuntimeError, match=message):
        target.load_state_dict(state, strict=strict)
    with pytest.raises(RuntimeError, match="size mismatch for the table: num_embeddings 1000 from"):
        target["words"].load_state_dict(table_of(1000, frozen)["words"].state_dict(), strict=strict)
    assert not target["words"].frozen
    assert torch.equal(target["words"](torch.arange(990)), before)


@pytest.mark.parametrize("frozen", [False, True])
def test_checkpoints_hold_cores_only_and_load_from_any_file(frozen, tmp_path: Path):
    source = table_of(1000, frozen)
    state = source.state_dict()
    names = [f"words.core_{k}" if frozen else f"words.cores.{k}" for k in range(3)]
    assert list(state) == names
    save_file(state, tmp_path / "table.safetensors")
    for stored in (saved_and_loaded(state), load_file(tmp_path / "table.safetensors"), dict(state)):
        target = table_of(1000, False)
        target.load_state_dict(stored)
        assert target["words"].frozen == frozen
        assert torch.equal(target["words"](torch.arange(1000)), source["words"](torch.arange(1000)))
    plain: dict = {}
    source.state_dict(destination=plain)
    assert list(plain) == names


def test_layer_learns_small_task():
    """20 words, 4 classes by id."""
    torch.manual_seed(0)
    layer, linear = TTEmbedding(20, 12, 4), nn.Linear(12, 4)
    ids = torch.arange(20)
    optimizer = torch.optim.Adam([*layer.parameters(), *linear.parameters()], 0.02)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(linear(layer(ids)), ids % 4)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    layer.eval().freeze()
    assert nn.functional.cross_entropy(linear(layer(ids)), ids % 4).item() < 0.1 * losses[0]
