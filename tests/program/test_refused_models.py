"""A model that cannot be saved is refused in terms of the user's code: line, layer, weight, remedy."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.program.reader import read_program

IDS = torch.tensor([[1, 2, 3]])


@dataclass
class Answer:
    logits: torch.Tensor


class KeyCache:
    """A cache that decoders of transformers return beside their logits."""


def make(forward, **tensors):
    """Return a model with a table ``words``, buffers of other names, and this ``forward``."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(40, 8)
            for name, tensor in tensors.items():
                self.register_buffer(name, tensor)

    Net.forward = forward
    return Net()


def plain(self, ids):
    return self.words(ids)


def branch(self, ids):
    rows = self.words(ids)
    if rows.sum() > 0:
        rows = rows * 2
    return rows


def loop(self, ids):
    rows = self.words(ids)
    while rows.abs().max() > 1:
        rows = rows / 2
    return rows


def length(self, ids):
    return self.words(ids[:, : int(ids.max())])


def through_numpy(self, ids):
    return self.words(torch.from_numpy(ids.numpy() + 1))


def counts(self, ids):
    self.calls += 1
    return self.words(ids)


def caches(self, ids):
    self.past[:, :3] = self.words(ids)
    return self.past + 0


def transposes_spectrum(self, ids):
    return torch.fft.rfft(self.words(ids)).abs()


def draws(self, ids):
    return self.words(ids) + torch.rand(8)


def drops(self, ids):
    return nn.functional.dropout(self.words(ids), 0.5)


def raises(self, ids):
    raise KeyError("speaker")


def nests(self, ids):
    return torch.nested.nested_tensor([self.words(ids)[0]]).to_padded_tensor(0.0)


def fakes(self, ids):
    return torch.fake_quantize_per_tensor_affine(self.words(ids), 0.1, 0, -128, 127)


COMPLEX = torch.polar(torch.ones(4, 8), torch.ones(4, 8))

REFUSED = {
    "branch on values": (make(branch), r"test_refused_models\.py:\d+ \(if rows\.sum\(\) > 0:\).*torch\.where"),
    "loop on values": (make(loop), r"\(while rows\.abs\(\)\.max\(\) > 1:\).*depends on values"),
    "length from values": (make(length), r"ids\[:, : int\(ids\.max\(\)\)\].*depends on values|int\(\) of a tensor"),
    "numpy": (make(through_numpy), "exported models do not support numpy"),
    "counter": (make(counts, calls=torch.zeros((), dtype=torch.int64)), "changes its buffer 'calls'.*self.training"),
    "cache": (make(caches, past=torch.zeros(1, 8, 8)), "changes its buffer 'past'.*an input and an output"),
    "complex buffer": (
        make(plain, rotary=COMPLEX),
        r"buffer 'rotary' contains complex numbers \(complex64\).*cos and sin",
    ),
    "complex parameter": (
        nn.Sequential(nn.Embedding(40, 8), nn.Linear(8, 4, dtype=torch.complex64)),
        "parameter '1.weight' contains complex numbers",
    ),
    "complex inside": (make(transposes_spectrum), "aten.fft_rfft.*computes complex numbers"),
    "max_norm": (nn.Sequential(nn.Embedding(40, 8, max_norm=1.0)), "layer '0' has max_norm=1.0.*max_norm = None"),
    "max_norm of bags": (nn.Sequential(nn.EmbeddingBag(40, 8, max_norm=2.0)), "max_norm=2.0"),
    "meta": (nn.Embedding(40, 8, device="meta"), "parameter 'weight' is on the meta device.*assign=True"),
    "sparse buffer": (make(plain, adjacency=torch.eye(4).to_sparse()), "'adjacency'.*sparse_coo.*to_dense"),
    "float8": (make(plain, scale=torch.ones(4).to(torch.float8_e5m2)), "'scale' has type float8_e5m2.*float()"),
    "lazy": (nn.Sequential(nn.Embedding(40, 8), nn.LazyLinear(4)), "'1.weight' has no shape yet"),
    "nested": (make(nests), "do not support nested tensors"),
    "fake quantised": (make(fakes), "do not support quantised numbers"),
    "random": (make(draws), "draws random numbers"),
    "dropout": (make(drops), "dropout is active in eval mode.*training=self.training"),
    "own error": (make(raises), r"its forward raises KeyError at test_refused_models\.py:\d+ .*'speaker'"),
    "dataclass": (make(lambda self, ids: Answer(self.words(ids))), "returns a Answer.*return its fields"),
    "cache of a decoder": (
        make(lambda self, ids: (self.words(ids), KeyCache())),
        "returns a KeyCache.*use_cache = False",
    ),
    "None by name": (make(lambda self, ids: {"logits": self.words(ids), "loss": None}), r"\['loss'\].* is None"),
    "size": (make(lambda self, ids: (self.words(ids), ids.shape[1])), r"output \[1\].* is a size"),
    "text": (make(lambda self, ids: (self.words(ids), "done")), r"output \[1\].* is 'done'"),
    "nothing": (make(lambda self, ids: None), "is None|no tensor"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_model_is_described_in_terms_of_user(tmp_path, capfd, kind):
    model, expected = REFUSED[kind]
    with pytest.raises(BadInputError, match=expected) as caught:
        edge_embed.save(model, tmp_path / "model.pt", IDS)
    message = str(caught.value)
    assert "\n" not in message
    assert not any(word in message for word in ("pytree", "guard", "unhinted", "FakeTensor", "draft_export", "u0"))
    assert capfd.readouterr().err == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("make_model", [
    lambda: (torch.jit.trace(nn.Embedding(40, 8), IDS), "TorchScript"),
    lambda: (nn.Sequential(torch.jit.trace(nn.Embedding(40, 8), IDS), nn.Linear(8, 4)), "layer '0' is TorchScript"),
    lambda: (
        torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Embedding(40, 8), nn.Linear(8, 4)), {nn.Linear}),
        "layer '1' is quantised by torch.ao.*quantize_dynamic",
    ),
])  # fmt: skip
def test_scripted_and_quantised_modules_are_refused(tmp_path, make_model):
    model, expected = make_model()
    with pytest.raises(BadInputError, match=expected):
        edge_embed.save(model, tmp_path / "model.pt", IDS)


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        (IDS.numpy(), "ndarray.*torch.from_numpy"),
        ((IDS.numpy(),), "ndarray: give torch.from_numpy"),
        ((Answer(IDS),), "contain a Answer.*fields"),
        ((IDS.to("meta"),), "meta device, without numbers: give one on the CPU"),
        ((IDS, IDS), r"\.forward\(ids\): too many"),
        ({"tokens": IDS}, r"\.forward\(ids\): missing.*'ids'"),
    ],
)
def test_example_inputs_of_wrong_kind_are_refused(tmp_path, example, expected):
    with pytest.raises(BadInputError, match=expected):
        edge_embed.save(make(plain), tmp_path / "model.pt", example)


def attends(self, ids):
    rows = self.words(ids)
    return nn.functional.scaled_dot_product_attention(rows, rows, rows).reshape(ids.shape[0], -1)


def joins(self, ids, past):
    return torch.cat([past, self.words(ids)], 1).mean(1) @ self.words.weight.T


def most(self, ids):
    return self.words(ids).amax(1)


@pytest.mark.parametrize(
    ("forward", "example", "shape"),
    [
        (attends, IDS[:0], r"\[0, 3\]"),
        (attends, IDS[:, :0], r"\[1, 0\]"),
        (most, (IDS[:, :0],), r"\[1, 0\]"),
    ],
)
def test_empty_example_that_cannot_be_traced_is_named_with_its_shape(tmp_path, forward, example, shape):
    with pytest.raises(BadInputError, match=f"has shape {shape}, expected at least 1 in every dimension") as caught:
        edge_embed.save(make(forward), tmp_path / "model.pt", example)
    assert not any(word in str(caught.value) for word in ("VR[", "modulo", "!="))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("example", [IDS[:0], IDS[:, :0]])
def test_empty_example_of_model_that_accepts_it_leaves_sizes_dynamic(tmp_path, example):
    model = make(plain)
    program = read_program(edge_embed.save(model, tmp_path / "model.pt", example))
    assert [port.shape for port in program.inputs] == [("batch", "sequence")]
    torch.testing.assert_close(program.run(IDS.repeat(2, 2))[0], model(IDS.repeat(2, 2)), rtol=0, atol=0)


def test_example_without_a_past_takes_a_past_of_any_length(tmp_path):
    model = make(joins)
    program = read_program(
        edge_embed.save(model, tmp_path / "model.pt", {"ids": IDS.repeat(2, 1), "past": torch.zeros(2, 0, 8)})
    )
    for batch, length in ((2, 0), (3, 4), (1, 1)):
        inputs = IDS.repeat(batch, 1), torch.randn(batch, length, 8)
        torch.testing.assert_close(program.run(*inputs)[0], model(*inputs))


@pytest.mark.parametrize(
    ("model", "shapes", "expected"),
    [
        (make(lambda self, ids: self.words(ids).reshape(1, 3, 8)), {"ids": {1: Dim("words")}}, "words.*constant"),
        (make(plain), {"tokens": {0: Dim("batch")}}, r"\['ids'\].*\['tokens'\]"),
        (make(plain), {"ids": {0: Dim("batch", min=4)}}, "not in range"),
    ],
)
def test_dynamic_shapes_that_do_not_fit_are_named(tmp_path, model, shapes, expected):
    with pytest.raises(
        BadInputError, match=rf"Net cannot be traced with these dynamic dimensions \(dynamic_shapes.*{expected}"
    ) as caught:
        edge_embed.save(model, tmp_path / "model.pt", IDS, shapes)
    assert "http" not in str(caught.value)


@pytest.mark.parametrize("model", [lambda ids: ids, nn.Embedding(40, 8).state_dict(), np.zeros(3)])
def test_model_that_is_no_module_is_refused_by_name(tmp_path, model):
    with pytest.raises(BadInputError, match=f"got a {type(model).__name__}, expected a module or the path"):
        edge_embed.export(model, "onnx", tmp_path / "m.onnx", IDS)


def test_module_that_cannot_be_copied_is_saved(tmp_path):
    class Locked(nn.Embedding):
        def __deepcopy__(self, memo):
            raise TypeError("not to be copied")

    with pytest.raises(TypeError):
        copy.deepcopy(Locked(40, 8))
    assert edge_embed.save(Locked(40, 8), tmp_path / "model.pt", IDS).exists()
