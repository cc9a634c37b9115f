"""LSTM, GRU and RNN keep a dynamic batch and length, alone and with the usual layers after them."""

import itertools

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError

KINDS = {"lstm": (nn.LSTM, {}), "gru": (nn.GRU, {}), "tanh": (nn.RNN, {}), "relu": (nn.RNN, {"nonlinearity": "relu"})}
LAYERS = {
    "one": {},
    "two": {"num_layers": 2, "batch_first": True},
    "both ways": {"bidirectional": True},
    "deep both ways": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "without bias": {"bias": False, "batch_first": True},
}


# The reference evaluator of onnx 1.23 has no Relu inside an RNN.
WAYS = dict.fromkeys(["LSTM", "GRU", "RNN_TANH"], ("library", "portable", "reference"))
WAYS["RNN_RELU"] = ("library", "portable")


class Recurrent(nn.Module):
    """Embedding, recurrent layer, and the layer that ``after`` names: nothing, residual, concat or attention."""

    def __init__(self, embedding: nn.Module, kind: str, layers: dict, after: str = "", state: bool = False) -> None:
        super().__init__()
        cell, options = KINDS[kind]
        self.embedding = embedding
        self.recurrent = cell(12, 12, **options, **layers)
        self.after, self.state = after, state

    def forward(self, ids: torch.Tensor, *initial: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.embedding(ids)
        hidden = (tuple(initial) if len(initial) == 2 else initial[0]) if initial else None
        y, last = self.recurrent(x, hidden)
        if self.after == "residual":
            y = y[..., :12] + x
        elif self.after == "concat":
            y = torch.cat([y, x], -1)
        elif self.after == "attention":
            y = torch.softmax(y @ y.transpose(-1, -2) / 3, -1) @ y
        return y, *(last if isinstance(last, tuple) else (last,))

    def inputs(self, batch: int, length: int) -> tuple[torch.Tensor, ...]:
        layer = self.recurrent
        shape = (batch, length) if layer.batch_first else (length, batch)
        states = layer.num_layers * (2 if layer.bidirectional else 1)
        count = (2 if isinstance(layer, nn.LSTM) else 1) if self.state else 0
        return torch.randint(0, 20, shape), *(torch.randn(states, batch, 12) for _ in range(count))


def check(export, model: Recurrent, example: tuple[int, int] = (2, 3)) -> None:
    exported = export(model, model.inputs(*example))
    onnx.checker.check_model(str(exported.path), full_check=True)
    assert len(exported.file.dynamic["ids"]) == 2
    assert exported.file.frozen["ids"] == []
    for batch, length in ((1, 1), (3, 7), (1, 40), (5, 2), (0, 3)):
        inputs = model.inputs(batch, length)
        with torch.no_grad():
            expected = [output.numpy() for output in model(*inputs)]
        # Both sides run torch's kernels with copied parameters: only the order of sums may differ.
        for got, wanted in zip(exported.trained(*inputs), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
        # Both libraries compute float32 sums of some 30 terms a step (measured: 1.2e-7 after 40 steps). Their tanh and
        # sigmoid have no known bound, and a rounding of one step is in all later steps.
        for way in WAYS[model.recurrent.mode]:
            for got, wanted in zip(exported.run(way, *inputs), expected, strict=True):
                assert got.shape == wanted.shape, (way, batch, length)
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6, err_msg=way)


@pytest.mark.parametrize("kind", ["lstm", "gru", "tanh"])
def test_recurrent_layer_without_step_gives_initial_state(export, make_table, kind):
    model = Recurrent(make_table(), kind, LAYERS["deep both ways"], state=True)
    exported = export(model, model.inputs(2, 3))
    for batch, way in itertools.product((0, 2), ("library", "portable")):
        ids, *states = model.inputs(batch, 1)
        output, *last = exported.run(way, ids[:, :0], *states)
        assert output.shape == (batch, 0, 24), way
        for got, wanted in zip(last, states, strict=True):
            np.testing.assert_array_equal(got, wanted.numpy(), way)


def test_recurrent_layer_with_fixed_sizes_has_no_guard(make_table, tmp_path):
    model, path = Recurrent(make_table(), "gru", LAYERS["two"]), tmp_path / "fixed.onnx"
    edge_embed.export(model, "onnx", path, model.inputs(2, 3), dynamic_shapes={"ids": {}})
    assert "Pad" not in {node.op_type for node in onnx.load(path).graph.node}


# Every kind, option and follow-up occurs at least once; the slow test below has all combinations of the first two.
@pytest.mark.parametrize(
    ("kind", "layers", "after", "state"),
    [
        ("lstm", "deep both ways", "residual", True),
        ("lstm", "one", "attention", False),
        ("gru", "two", "concat", True),
        ("gru", "both ways", "", False),
        ("tanh", "deep both ways", "concat", False),
        ("relu", "without bias", "residual", True),
    ],
)
def test_recurrent_layer_keeps_dynamic_batch_and_length(export, make_table, kind, layers, after, state):
    check(export, Recurrent(make_table(padding_idx=0), kind, LAYERS[layers], after, state))


AFTER = ["", "residual", "concat", "attention"]


@pytest.mark.slow
@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layer_keeps_dynamic_sizes_in_every_combination(export, make_table, kind, layers):
    first, second = list(KINDS).index(kind), list(LAYERS).index(layers)
    after, state = AFTER[(first + second) % 4], (first + second // 2) % 2 == 1  # each with every kind and layers
    check(export, Recurrent(make_table(), kind, LAYERS[layers], after, state))


@pytest.mark.parametrize("kind", ["lstm", "tanh"])
def test_recurrent_layer_with_one_example_id_stays_dynamic(export, make_table, kind):
    check(export, Recurrent(make_table().freeze(), kind, LAYERS["two"], "residual"), (1, 1))


def test_recurrent_layers_in_sequence_stay_dynamic(export, make_table):
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = make_table()
            self.first, self.second = nn.LSTM(12, 8, batch_first=True), nn.GRU(8, 6, batch_first=True)
            self.head = nn.Linear(6, 3)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(torch.relu(self.second(self.first(self.embedding(ids))[0])[0]).mean(1))

    exported = export(Two())
    assert exported.file.dynamic == {"ids": ["batch", "sequence"], "output": ["batch"]}
    for shape in ((1, 1), (4, 9)):
        ids = torch.randint(0, 20, shape)
        expected = exported.trained(ids)[0]
        for way in ("library", "portable", "reference"):
            np.testing.assert_allclose(exported.run(way, ids)[0], expected, rtol=1e-5, atol=1e-6)  # as in `check`


def test_fixed_size_is_listed_as_frozen(export, make_table):
    class Window(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = make_table(), nn.Linear(36, 2)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(ids).flatten(1))

    exported = export(Window())
    assert exported.file.dynamic["ids"] == ["batch"]
    assert exported.file.frozen["ids"] == ["3"]
    np.testing.assert_allclose(
        exported.run("library", torch.ones(5, 3, dtype=torch.int64))[0],
        exported.trained(torch.ones(5, 3, dtype=torch.int64))[0], rtol=1e-6, atol=1e-6,  # sums of 36
    )  # fmt: skip


def test_lstm_projections_are_refused(export, make_table):
    model = Recurrent(make_table(), "lstm", {"proj_size": 3})
    with pytest.raises(BadInputError, match=r"proj_size=3 cannot be exported.*Linear"):
        export(model, model.inputs(2, 3))


def test_packed_sequences_are_refused_with_remedy(export, make_table):
    class PackedTable(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.lstm = make_table(), nn.LSTM(12, 4, batch_first=True)

        def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            rows = nn.utils.rnn.pack_padded_sequence(self.embedding(ids), lengths, True, False)
            return self.lstm(rows)[1][0]

    with pytest.raises(BadInputError, match=r"packed sequences cannot be exported.*padded batch"):
        export(PackedTable(), (torch.ones(2, 3, dtype=torch.int64), torch.tensor([3, 2])))
