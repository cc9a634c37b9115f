"""``python web_models.py FOLDER`` exports models whose tables are used in every way, some with external data."""

import sys
from pathlib import Path

import torch
from torch import nn

from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.layers.activations import Entmax
from edge_embed.layers.bag import ANTEmbeddingBag
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.layers.tt import TTEmbedding
from edge_embed.lowering.graph import lower_program
from edge_embed.ops.entmax import entmax15, sparsemax, topk_sparsemax
from edge_embed.program.capture import write_archive
from edge_embed.program.reader import read_program


class Rows(nn.Module):
    """Float16 rows, which are an output too, and nodes after them."""

    def __init__(self):
        super().__init__()
        self.words = DPQEmbedding(600, 48, 16, 8, variant="vq", padding_idx=0)
        self.words.freeze(value_type="float16")
        self.classes = nn.Linear(48, 5)

    def forward(self, ids):
        rows = self.words(ids).float()
        return self.classes(rows.mean(1)), ids == 0


class Bags(nn.Module):
    """Bags of ids in two dimensions, whose offsets the graph computes, and weighted ones."""

    def __init__(self):
        super().__init__()
        self.words = ANTEmbeddingBag(300, 24, 10, mode="mean", padding_idx=0)
        self.classes = nn.Linear(24, 4)
        with torch.no_grad():
            self.words.transform.copy_(torch.rand(300, 10) * (torch.rand(300, 10) < 0.3))

    def forward(self, ids):
        return self.classes(self.words(ids))


class Suggestions(nn.Module):
    """One table that is looked up, and multiplied for logits and for the largest of them."""

    def __init__(self):
        super().__init__()
        self.words = TTEmbedding(300, 32, rank=8)
        self.encoder = nn.Linear(32, 32)
        self.output = TiedOutput(self.words, bias=True)

    def forward(self, ids):
        states = torch.tanh(self.encoder(self.words(ids).mean(1)))
        return self.output(states), self.output.topk(states, 5)


class Highlights(nn.Module):
    """Rows under sparse activations, one of which has learned alphas."""

    def __init__(self):
        super().__init__()
        self.words = DPQEmbedding(600, 48, 16, 8, variant="vq", padding_idx=0)
        self.learned = Entmax(num_heads=4)
        with torch.no_grad():
            self.learned.alpha_logit.copy_(torch.linspace(-3, 3, 4))

    def forward(self, ids):
        scores = self.words(ids).unflatten(-1, (4, 12)).transpose(1, 2)
        return self.learned(scores), entmax15(scores), sparsemax(scores), topk_sparsemax(scores, 3)


MODELS = {
    "rows": (Rows, "always"),
    "bags": (Bags, "never"),
    "suggestions": (Suggestions, "never"),
    "highlights": (Highlights, "never"),
}


def main(folder: Path) -> None:
    """Export all models."""
    for name, (model, external) in MODELS.items():
        torch.manual_seed(0)
        with (folder / "model.pt").open("wb") as file:
            write_archive(model(), file, (torch.tensor([[17, 4, 256], [3, 0, 99]]),))
        export_onnx(lower_program(read_program(folder / "model.pt")), folder / f"{name}.onnx", external)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
