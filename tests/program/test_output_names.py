"""Names of outputs are the model's names in every file."""

import collections
from typing import NamedTuple

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import edge_embed
from edge_embed.workflow import load

IDS = torch.tensor([[1, 2, 3]])


class Scored(NamedTuple):
    scores: Tensor
    rows: Tensor


class Model(nn.Module):
    def __init__(self, give) -> None:
        super().__init__()
        self.words, self.give = edge_embed.TTEmbedding(30, 8, rank=2), give

    def forward(self, ids):
        rows = self.words(ids)
        return self.give(rows.sum(-1), rows, ids)


Pair = collections.namedtuple("Pair", "first second")
FORMS = {
    "named tuple": (lambda scores, rows, _: Scored(scores, rows), ["scores", "rows"]),
    "namedtuple": (lambda scores, rows, _: Pair(scores, rows), ["first", "second"]),
    "inside": (lambda scores, rows, _: {"a": Scored(scores, rows), "b": [rows + 1]}, ["a_scores", "a_rows", "b_0"]),
    "ordered": (lambda scores, rows, _: collections.OrderedDict(z=scores, a=rows), ["z", "a"]),
    "default": (lambda scores, rows, _: collections.defaultdict(list, z=scores, a=rows), ["z", "a"]),
    "topk": (lambda scores, *_: scores.topk(2), ["values", "indices"]),
    "twice": (lambda scores, *_: {"a": scores, "b": scores}, ["a", "b"]),
    "rows twice": (lambda _, rows, __: {"a": rows, "b": rows, "c": rows}, ["a", "b", "c"]),
    "input": (lambda scores, _, ids: {"scores": scores, "echo": ids}, ["scores", "echo"]),
    "input twice": (lambda _, rows, ids: {"one": ids, "rows": rows, "two": ids}, ["one", "rows", "two"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_outputs_of_onnx_file_have_names_of_model(tmp_path, form):
    give, names = FORMS[form]
    model = Model(give).eval()
    program = load(edge_embed.save(model, tmp_path / "m.pt", IDS))
    assert list(program.output_names) == names
    edge_embed.export(tmp_path / "m.pt", "onnx", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert [output.name for output in session.get_outputs()] == names
    assert [given.name for given in session.get_inputs()] == ["ids"]
    wanted = torch.utils._pytree.tree_leaves(model(IDS))
    for got, tensor in zip(session.run(names, {"ids": IDS.numpy()}), wanted, strict=True):
        torch.testing.assert_close(torch.from_numpy(got), tensor.detach())


def test_outputs_of_transformers_have_names_of_their_fields(tmp_path):
    outputs = pytest.importorskip("transformers.modeling_outputs")
    model = Model(lambda scores, rows, _: outputs.BaseModelOutput(last_hidden_state=rows, hidden_states=(rows, scores)))
    program = load(edge_embed.save(model, tmp_path / "m.pt", IDS))
    assert program.output_names == ("last_hidden_state", "hidden_states_0", "hidden_states_1")


@pytest.mark.parametrize("form", ["rows twice", "input twice"])
def test_outputs_of_tflite_file_have_names_of_model(tmp_path, form):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    give, names = FORMS[form]
    model = Model(give).eval()
    edge_embed.save(model, tmp_path / "m.pt", IDS)
    edge_embed.export(tmp_path / "m.pt", "tflite", tmp_path / "m.tflite")
    runner = interpreter.Interpreter(str(tmp_path / "m.tflite")).get_signature_runner()
    results = runner(ids=IDS.numpy())
    assert sorted(results) == sorted(names)
    for name, tensor in model(IDS).items():
        torch.testing.assert_close(torch.from_numpy(results[name]).to(tensor.dtype), tensor.detach())
    tensors = [detail["name"] for detail in interpreter.Interpreter(str(tmp_path / "m.tflite")).get_output_details()]
    assert len(set(tensors)) == len(names)
