"""A model of each method, saved and exported once; tests run them on targets."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed import workflow
from edge_embed.program.program import Program
from edge_embed.report.results.validation import TargetResult
from edge_embed.validation.options import ValidationOptions


class Tagger(nn.Module):
    """Rows of DPQ, then a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(700, 24, num_codes=16, num_groups=6, variant="vq", padding_idx=0)
        self.encoder = nn.GRU(24, 8, batch_first=True)

    def forward(self, ids):
        return self.encoder(self.words(ids))[0]


class Classifier(nn.Module):
    """Bags of ANT."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = edge_embed.ANTEmbeddingBag(500, 20, num_anchors=12)
        self.classes = nn.Linear(20, 3)

    def forward(self, ids, offsets):
        return self.classes(self.bags(ids, offsets))


class NextItem(nn.Module):
    """An output layer tied to a table of TT: logits and top-k."""

    def __init__(self) -> None:
        super().__init__()
        self.items = edge_embed.TTEmbedding(600, 16, rank=4)
        self.head = edge_embed.TiedOutput(self.items)

    def forward(self, ids):
        state = self.items(ids).mean(1)
        values, best = self.head.topk(state, 5)
        return {"logits": self.head(state), "values": values, "best": best}


EXAMPLES = {
    "tagger": (Tagger, (torch.tensor([[3, 1, 699], [5, 0, 6]]),)),
    "classifier": (Classifier, (torch.tensor([3, 1, 499, 5, 2]), torch.tensor([0, 2]))),
    "next item": (NextItem, (torch.tensor([[3, 1, 599]]),)),
}


@dataclass
class Model:
    """A program and its exported file."""

    program: Program
    path: Path

    def on(self, target: str, **options: object) -> TargetResult:
        """Return the result of validation on a target."""
        chosen = ValidationOptions(**{"iterations": 0, "targets": (target,), **options})
        (result,) = workflow.validate(self.program, self.path, options=chosen).targets
        return result


def make_model(name: str, folder: Path) -> Model:
    kind, example = EXAMPLES[name]
    torch.manual_seed(0)
    edge_embed.save(kind(), folder / "model.pt", example)
    program = workflow.load(folder / "model.pt")
    workflow.export(program, "onnx", folder / "model.onnx")
    return Model(program, folder / "model.onnx")


@pytest.fixture(scope="session", params=EXAMPLES)
def model(request, tmp_path_factory) -> Model:
    return make_model(request.param, tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="session")
def tagger(tmp_path_factory) -> Model:
    return make_model("tagger", tmp_path_factory.mktemp("tagger"))
