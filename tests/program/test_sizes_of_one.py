"""Examples with a batch of 1: shapes are dynamic wherever the model accepts any size."""

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed import workflow
from edge_embed.program import sizes_of_one
from edge_embed.program.capture import trace

IDS = torch.tensor([[1, 2, 3, 4]])


class Positions(nn.Module):
    """Ids and positions in front of an encoder of torch, as in most language models."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(9, 8), nn.Embedding(6, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        return self.block(self.words(ids) + self.places(torch.arange(length)), src_mask=mask)


class OfOneText(Positions):
    """A model whose output has another rank for a single text."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = super().forward(ids)
        return rows[0] if ids.shape[0] == 1 else rows


def shapes(model: nn.Module, **inputs: torch.Tensor) -> list[list[object]]:
    """Return the sizes of all outputs after decompositions, dynamic ones as None."""
    program = trace(model, (), inputs, None).run_decompositions({})
    outputs = [node.meta["val"] for node in program.graph.output_node().args[0]]
    return [[None if isinstance(size, torch.SymInt) else size for size in output.shape] for output in outputs]


@pytest.mark.slow
def test_output_of_batch_of_one_has_dynamic_batch():
    assert shapes(Positions(), ids=IDS) == [[None, None, 8]]


@pytest.mark.slow
def test_example_of_saved_model_stays_that_of_user(tmp_path):
    edge_embed.save(Positions(), tmp_path / "m.pt", example_inputs=IDS)
    (example,) = workflow.load(tmp_path / "m.pt").example_inputs
    assert torch.equal(example, IDS)


def test_trace_of_batch_of_one_gives_numbers_of_any_batch():
    model = Positions().eval()
    program = trace(model, (IDS,), {}, None).module(check_guards=False)
    for batch in (1, 2, 5):
        ids = torch.randint(0, 9, (batch, 3))
        torch.testing.assert_close(program(ids), model(ids))


@pytest.mark.slow
def test_model_with_branch_for_batch_of_one_keeps_branch_of_example():
    assert shapes(OfOneText(), ids=IDS) == [[None, 8]]


def test_example_without_limited_size_is_traced_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sizes_of_one, "_doubled", lambda *given: pytest.fail("traced again"))
    assert shapes(Positions(), ids=IDS.repeat(2, 1)) == [[None, None, 8]]
    assert shapes(nn.Embedding(9, 8), input=IDS) == [[None, None, 8]]
