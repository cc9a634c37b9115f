"""A saved model holds its weights and examples, and no numbers that lie beside them in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edge_embed.program.capture import write_archive
from edge_embed.program.reader import read_program

SECRET = 7_654_321.0


class Net(nn.Module):
    def __init__(self, weight: Tensor, offset: Any = 0.0, *, buffer: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(len(weight), 4, _weight=weight)
        if buffer and isinstance(offset, Tensor):
            self.register_buffer("offset", offset)
        else:
            self.offset = offset

    def forward(self, ids: Tensor) -> Tensor:
        rows: Tensor = self.table(ids) + self.offset
        return rows


def large(*shape: int) -> Tensor:
    """Return numbers of which the slices below are taken; most of them are the secret."""
    made = torch.full(shape, SECRET)
    made[:30, :4] = torch.arange(120.0).view(30, 4)
    return made


def written(model: nn.Module, path: Path, examples: Any) -> bytes:
    with path.open("wb") as file:
        write_archive(model, file, examples)
    return path.read_bytes()


IDS = torch.tensor([[3, 29]])
MODELS: dict[str, Callable[[], nn.Module]] = {
    "rows": lambda: Net(large(5_000, 4)[:30]),
    "columns": lambda: Net(large(30, 5_000)[:, :4]),
    "float16": lambda: Net(large(5_000, 4).half()[:30], 0.0),
    "buffer": lambda: Net(torch.ones(30, 4), large(5_000, 4)[1]),
    "constant": lambda: Net(torch.ones(30, 4), large(5_000, 4)[1], buffer=False),
}


@pytest.mark.parametrize("name", MODELS)
def test_slice_of_matrix_as_weight_is_written_alone(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    content = written(model, tmp_path / "model.pt", IDS)
    assert len(content) < 20_000
    assert torch.tensor(SECRET).numpy().tobytes() not in content
    (rows,) = read_program(tmp_path / "model.pt").run(IDS)
    assert torch.equal(rows, model(IDS))


@pytest.mark.parametrize("examples", [lambda ids: ids, lambda ids: (ids,), lambda ids: {"ids": ids}])
def test_slice_of_dataset_as_example_is_written_alone(examples: Any, tmp_path: Path) -> None:
    data = torch.full((50_000,), 29)
    content = written(Net(torch.ones(30, 4)), tmp_path / "model.pt", examples(data[:6].view(2, 3)))
    assert len(content) < 20_000


def test_slice_used_as_two_weights_is_written_once(tmp_path: Path) -> None:
    class Tied(Net):
        def __init__(self) -> None:
            super().__init__(torch.arange(1_000_000.0).view(-1, 4)[5_000:5_030])
            self.head = nn.Linear(4, 30, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids: Tensor) -> Tensor:
            logits: Tensor = self.head(self.table(ids))
            return logits

    content = written(Tied(), tmp_path / "model.pt", IDS)
    assert content.count(torch.arange(20_000.0, 20_120.0).numpy().tobytes()) == 1


def test_parts_of_stored_weight_add_no_bytes(tmp_path: Path) -> None:
    whole = torch.arange(40_000.0).view(-1, 4)
    content = written(Net(whole, whole[7]), tmp_path / "model.pt", IDS)
    assert len(content) < whole.nbytes + 20_000
