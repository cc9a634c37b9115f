"""`edge_embed.load`: a saved model is a module again, with compressed layers whose rows and outputs are equal."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import edge_embed
from edge_embed import workflow
from edge_embed.errors import BadInputError

INPUTS = torch.tensor([1, 2, 0, 39, 7]), torch.tensor([0, 2])


class Uses(nn.Module):
    """All uses of tables: rows, bags, logits and top-k, of trainable and frozen layers of all methods."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(40, 16, num_codes=16, num_groups=4, padding_idx=0)
        self.head = edge_embed.TiedOutput(self.words, bias=True)
        self.bag = edge_embed.ANTEmbeddingBag(40, 16, 8, mode="sum")
        self.chain = edge_embed.TREmbedding(40, 16, rank=2).freeze("float16")
        self.linear = nn.Linear(16, 16)

    def forward(self, ids: Tensor, offsets: Tensor) -> tuple[Tensor, ...]:
        hidden = self.linear(self.words(ids)) + self.bag(ids, offsets).mean(0) + self.chain(ids)
        return self.head(hidden), hidden, *self.head.topk(hidden, 3)


@pytest.fixture(scope="module")
def model() -> Uses:
    torch.manual_seed(0)
    return Uses().eval()


@pytest.fixture(scope="module")
def path(model: Uses, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return edge_embed.save(model, tmp_path_factory.mktemp("saved") / "model.pt", INPUTS)


def test_loaded_module_returns_equal_outputs(model: Uses, path: Path) -> None:
    loaded = edge_embed.load(path)
    for outputs in (loaded(*INPUTS), loaded(INPUTS[0], offsets=INPUTS[1])):
        for got, expected in zip(outputs, model(*INPUTS), strict=True):
            assert torch.equal(got, expected)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("words", edge_embed.DPQEmbedding), ("bag", edge_embed.ANTEmbedding), ("chain", edge_embed.TREmbedding)],
)
def test_loaded_layer_is_frozen_with_equal_packed_rows(model: Uses, path: Path, name: str, kind: type) -> None:
    layer = edge_embed.load(path).get_submodule(name)
    assert type(layer) is kind
    assert isinstance(layer, edge_embed.DPQEmbedding | edge_embed.ANTEmbedding | edge_embed.TTEmbedding)
    assert layer.frozen
    expected = model.get_submodule(name).to_packed()  # type: ignore[operator]
    assert (layer.to_packed().rows(range(40)) == expected.rows(range(40))).all()


def test_hook_of_loaded_layer_sees_its_rows(path: Path) -> None:
    loaded, seen = edge_embed.load(path), []
    loaded.get_submodule("words").register_forward_hook(lambda _, ids, rows: seen.append(rows.shape))
    loaded(*INPUTS)
    assert seen == [(5, 16)]


def test_loaded_module_exports_again(path: Path, tmp_path: Path) -> None:
    again = edge_embed.save(edge_embed.load(path), tmp_path / "again.pt", INPUTS)
    tables = [edge_embed.lower(each).tables for each in (path, again)]
    assert tables[0].keys() == tables[1].keys()
    assert all((tables[0][name].rows(range(40)) == tables[1][name].rows(range(40))).all() for name in tables[0])


def test_module_of_compressed_file_returns_its_outputs(tmp_path: Path) -> None:
    dense = nn.Sequential(nn.Embedding(500, 16), nn.Linear(16, 4)).half().eval()
    edge_embed.save(dense, tmp_path / "dense.pt", INPUTS[0])
    small, _ = workflow.compress(tmp_path / "dense.pt", "opq", ratio=4, output=tmp_path / "small.pt")
    loaded = edge_embed.load(tmp_path / "small.pt")
    assert isinstance(loaded.get_submodule("0"), edge_embed.DPQEmbedding)
    assert torch.equal(loaded(INPUTS[0]), small.run(INPUTS[0])[0])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("inputs", "named"), [(1, {}), (3, {}), (1, {"offset": INPUTS[1]}), (2, {"offsets": INPUTS[1]})], ids=str
)
def test_loaded_module_refuses_other_inputs(path: Path, inputs: int, named: dict[str, Tensor]) -> None:
    with pytest.raises(BadInputError, match="expected ids, offsets"):
        edge_embed.load(path)(*(INPUTS * 2)[:inputs], **named)


def test_load_of_folder_names_from_pretrained(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"from_pretrained after `import edge_embed\.transformers`"):
        edge_embed.load(tmp_path)
