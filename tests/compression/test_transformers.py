"""Transformers models in the shapes of Qwen, Gemma and BERT, with random weights: tables and tied output layers."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edge_embed
from edge_embed import workflow
from edge_embed.validation.options import ValidationOptions

transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install 'edge-embed[dev]'")

SIZES = {"num_codes": 16, "num_groups": 16}
COMMON = {
    "vocab_size": 500,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
    "attn_implementation": "eager",
}
DECODER = {**COMMON, "num_key_value_heads": 1, "head_dim": 16, "use_cache": False}
IDS = torch.tensor([[5, 17, 499, 1], [3, 3, 8, 2]])


class Logits(nn.Module):
    """A model that returns logits, as an app needs them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        return self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits  # type: ignore[no-any-return]


def qwen() -> nn.Module:
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**DECODER, tie_word_embeddings=True))


def gemma() -> nn.Module:
    return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**DECODER))


def bert() -> nn.Module:
    return transformers.BertForMaskedLM(transformers.BertConfig(**COMMON))


MODELS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "qwen": (qwen, "model.model.embed_tokens"),
    "gemma": (gemma, "model.model.embed_tokens"),
    "bert": (bert, "model.bert.embeddings.word_embeddings"),
}


def made(name: str) -> tuple[Logits, str]:
    torch.manual_seed(0)
    make, table = MODELS[name]
    return Logits(make().eval()), table


def with_rows(model: nn.Module, table: str, rows: Any) -> nn.Module:
    """Return a copy with other rows in the dense table, to which the output layer is tied."""
    changed = copy.deepcopy(model)
    with torch.no_grad():
        changed.get_submodule(table).weight.copy_(torch.from_numpy(rows))
    return changed


@pytest.mark.parametrize("name", ["qwen", "bert"])
def test_compressed_module_computes_with_packed_rows(name: str) -> None:
    model, table = made(name)
    small, report = edge_embed.compress(model, "dpq", modules=[table], **SIZES)
    found = {each.name: each for each in report.tables}[table]
    assert found.uses == 2  # lookup and tied output layer
    same = with_rows(model, table, small.get_submodule(table).to_packed().rows(range(500)))
    torch.testing.assert_close(small(IDS), same(IDS))


def test_table_with_own_forward_is_refused_with_remedy() -> None:
    with pytest.raises(
        edge_embed.errors.BadInputError, match="that overrides forward: save the model and compress the"
    ):
        edge_embed.compress(made("gemma")[0], "dpq", ratio=6)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_compressed_saved_model_computes_with_packed_rows(name: str, tmp_path: Path) -> None:
    model, table = made(name)
    edge_embed.save(model, tmp_path / "dense.pt", IDS)
    program, report = workflow.compress(
        tmp_path / "dense.pt", "dpq", modules=[table], output=tmp_path / "small.pt", **SIZES
    )
    assert {each.name: each.uses for each in report.tables}[table] == 2
    packed = workflow.lower(tmp_path / "small.pt").tables[table]
    same = with_rows(model, table, packed.rows(range(500)))
    torch.testing.assert_close(program.run(IDS)[0], same(IDS))
    edge_embed.export(tmp_path / "small.pt", "onnx", tmp_path / "small.onnx")
    options = ValidationOptions(iterations=0)
    assert edge_embed.validate(tmp_path / "small.pt", tmp_path / "small.onnx", options=options).passed
