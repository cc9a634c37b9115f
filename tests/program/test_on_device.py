"""Programs on another device than the CPU, without a GPU: `tests.other_device`."""

from pathlib import Path

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed import workflow
from edge_embed.program.on_device import on_device
from tests import other_device
from tests.forked import run_processes


class WithConstants(nn.Module):
    """Makes tensors in each way that a graph has: a state of zeros, positions, a number, a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(50, 12, 5, 3)
        self.encoder = nn.GRU(12, 8, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids.shape[1]) + torch.tensor([1])
        mask = torch.full((ids.shape[1], 8), -1.0).tril() + torch.eye(ids.shape[1], 8)
        return self.encoder(self.words(ids))[0] * positions.unsqueeze(-1) + mask


class Bags(nn.Module):
    """Makes tensors from the rank and the size of others."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = edge_embed.ANTEmbeddingBag(50, 12, num_anchors=5)

    def forward(self, ids: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.bags(ids, offsets) + torch.ones(12).to(ids.device)


MODELS = ((WithConstants, (torch.tensor([[3, 1, 0, 49]]),)), (Bags, (torch.tensor([3, 1, 49]), torch.tensor([0, 2]))))


def compare(rank: int, folder: Path) -> None:
    programs = []
    for kind, example in MODELS:
        torch.manual_seed(0)
        programs.append(workflow.load(edge_embed.save(kind(), folder / f"{kind.__name__}.pt", example)))
    other_device.register()
    for program in programs:
        expected = program.run(*program.example_inputs)
        moved = on_device(program.module, torch.device("other"))
        found = moved(*(each.to("other") for each in program.example_inputs))
        for one, other in zip(expected, found, strict=True):
            assert other.device.type == "other"
            torch.testing.assert_close(other_device.cpu(other), one)
        assert {str(each.device) for each in program.module.buffers()} == {"cpu"}
        program.check_example()


@pytest.mark.slow
def test_program_on_another_device_makes_its_tensors_there(tmp_path: Path) -> None:
    run_processes(compare, (tmp_path,), count=1)
