"""Model cards: a header that the Hub reads, and figures of the report."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import yaml  # type: ignore[import-untyped]
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.program.provenance import provenance_of
from edge_embed.report.results.provenance import Provenance
from edge_embed.report.views.markdown.card import header
from tests.genai.folders import made_folder


class Words(nn.Module):
    """Scores of ids, from a dense table."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(200, 16)
        self.tags = nn.Linear(16, 5)

    def forward(self, ids: Tensor) -> Tensor:
        scores: Tensor = self.tags(self.words(ids))
        return scores


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved model with a dense table."""
    torch.manual_seed(0)
    metadata = {"licence": "My own: licence", "base_model": "owner/base", "task": "token-classification"}
    path = tmp_path_factory.mktemp("dense") / "dense.pt"
    return edge_embed.save(Words(), path, torch.tensor([[1, 2]]), metadata=metadata)


def compress(model: Any, output: Path, card: Path, **options: Any) -> Any:
    settings: dict[str, Any] = {"method": "rows", "bits": 8, "progress": lambda *_: None} | options
    return edge_embed.compress(model, output=output, card=card, **settings)


def test_card_of_compressed_model_has_its_figures(dense: Path, tmp_path: Path) -> None:
    found = compress(dense, tmp_path / "small.pt", tmp_path / "README.md").report
    card = (tmp_path / "README.md").read_text("utf-8")
    assert yaml.safe_load(card.split("---\n")[1]) == {
        "library_name": "edge-embed",
        "license": "other",
        "license_name": "my-own-licence",
        "pipeline_tag": "token-classification",
        "base_model": "owner/base",
        "tags": ["edge-embed", "pytorch"],
    }
    assert "\n# small\n\ntoken-classification\n" in card
    fidelity = found.tables[0].fidelity
    assert f"| {found.dense_bytes:,} | {found.compressed_bytes:,} |" in card
    assert f"| words | {fidelity.mean_cosine:.4f} | {fidelity.relative_error:.4f} |" in card
    assert "| bits | 8 |" in card
    for path in (dense, tmp_path / "small.pt"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() in card


def test_card_of_onnx_file_has_its_tag(tmp_path: Path) -> None:
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", 16])
    words = numpy_helper.from_array(np.random.default_rng(0).standard_normal((200, 16), np.float32), "words")
    graph = helper.make_graph([helper.make_node("Gather", ["words", "ids"], ["rows"])], "g", [ids], [rows], [words])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "dense.onnx"
    )
    compress(tmp_path / "dense.onnx", tmp_path / "small.onnx", tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text("utf-8")
    assert yaml.safe_load(card.split("---\n")[1])["tags"] == ["edge-embed", "onnx"]
    assert 'edge_embed.create_session("small.onnx")' in card


def test_card_of_genai_folder_replaces_none_but_ours(tmp_path: Path) -> None:
    made_folder(tmp_path / "dense")
    compress(tmp_path / "dense", tmp_path / "small", tmp_path / "card.md")
    card = (tmp_path / "small" / "README.md").read_text("utf-8")
    assert card == (tmp_path / "card.md").read_text("utf-8")
    assert yaml.safe_load(card.split("---\n")[1])["tags"] == ["edge-embed", "onnx"]
    assert "\n# small\n" in card
    (tmp_path / "dense" / "README.md").write_text("---\nlibrary_name: edge-embed\n---\nof an earlier compression")
    compress(tmp_path / "dense", tmp_path / "small", tmp_path / "card.md", force=True)
    assert (tmp_path / "small" / "README.md").read_text("utf-8") == card
    (tmp_path / "dense" / "README.md").write_text("theirs")
    compress(tmp_path / "dense", tmp_path / "small", tmp_path / "card.md", force=True)
    assert (tmp_path / "small" / "README.md").read_text("utf-8") == "theirs"


def test_failed_compression_writes_no_card(dense: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        compress(dense, tmp_path / "small.pt", tmp_path / "README.md", modules=["absent"])
    assert [*tmp_path.iterdir()] == []


def test_card_is_no_other_file_of_the_command(dense: Path, tmp_path: Path) -> None:
    for card, problem in {tmp_path / "small.pt": "two outputs", dense: "is read by this command"}.items():
        with pytest.raises(BadInputError, match=problem):
            compress(dense, tmp_path / "small.pt", card, force=True)
    (tmp_path / "mine.md").write_text("mine")
    with pytest.raises(BadInputError, match="exists"):
        compress(dense, tmp_path / "small.pt", tmp_path / "mine.md")
    with pytest.raises(BadInputError, match=r"card: got .* without an output"):
        edge_embed.compress(dense, ratio=2, card="card.md")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.md"]


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("MIT", {"license": "mit"}),
        ("Apache-2.0", {"license": "apache-2.0"}),
        ("", {}),
        ("no", {"license": "other", "license_name": "no"}),
        ("a\nb: [c]\n---\n\u2028# '\"x", {"license": "other", "license_name": "a-b-c-x"}),
        ("\u6771\u4eac", {"license": "other", "license_name": "stated-in-the-card"}),
    ],
)
def test_header_holds_any_licence(stated: str, expected: dict[str, str]) -> None:
    text = header(Provenance(licence=stated), "onnx")
    assert text.count("---") == 2
    found = yaml.safe_load(text.removesuffix("---"))
    assert found == {"library_name": "edge-embed", "tags": ["edge-embed", "onnx"]} | expected


@pytest.mark.parametrize(
    ("place", "stated", "expected"),
    [
        ("hub/models--owner--name/snapshots/0123", "", "owner/name"),
        ("hub/models--owner--name/snapshots/0123", "other/base", "other/base"),
        ("models/name", "", ""),
        ("models/name", "out/../../x", ""),
        ("hub/models--gpt2/snapshots/0123", "", ""),
    ],
)
def test_base_model_is_an_id_of_the_hub(tmp_path: Path, place: str, stated: str, expected: str) -> None:
    assert provenance_of(tmp_path / place, {"base_model": stated}).base_model == expected


CONFIGS: dict[str, tuple[Any, str]] = {
    "class": ({"architectures": ["BertForSequenceClassification"]}, "text-classification"),
    "two labels": (
        {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b"}},
        "text-classification",
    ),
    "one label": ({"architectures": ["BertForSequenceClassification"], "id2label": {"0": "a"}}, ""),
    "causal": ({"architectures": ["LlamaForCausalLM"]}, "text-generation"),
    "images": ({"architectures": ["GitForCausalLM"], "vision_config": {}}, ""),
    "hidden states": ({"architectures": ["BertModel"]}, ""),
    "several tasks": ({"architectures": ["T5ForConditionalGeneration"]}, ""),
    "no class": ({}, ""),
    "wrong": ({"architectures": [3]}, ""),
    "no object": ([], ""),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_task_is_that_of_the_class(tmp_path: Path, case: str) -> None:
    config, expected = CONFIGS[case]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert provenance_of(tmp_path, {}).task == expected
    assert provenance_of(tmp_path, {"task": "mine"}).task == "mine"
    (tmp_path / "modules.json").write_text("[]")
    assert provenance_of(tmp_path, {}).task == ""


@pytest.mark.parametrize(("task", "tag"), [("fill-mask", "fill-mask"), ("next word", None), ("a\nb: c", None)])
def test_header_has_only_tasks_of_the_hub(task: str, tag: str | None) -> None:
    found = yaml.safe_load(header(Provenance(task=task), "onnx").removesuffix("---"))
    assert found.get("pipeline_tag") == tag


def test_bundle_of_hostile_metadata_has_a_plain_card(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = edge_embed.DPQEmbedding(60, 16, num_codes=8, num_groups=4)
    metadata = {"task": "</td><script> @someone [x](y)", "license": "mit\nbase_model: evil/model"}
    path = edge_embed.save(layer, tmp_path / "model.pt", torch.tensor([1, 2]), metadata=metadata)
    edge_embed.export(path, "onnx", tmp_path / "app", bundle=True, open=False, progress=lambda *_: None)
    card = (tmp_path / "app" / "README.md").read_text("utf-8")
    assert "base_model" not in yaml.safe_load(card.split("---\n")[1])
    assert "<script>" not in card
    assert "\\[x](y)" in card
    assert json.loads((tmp_path / "app" / "bundle.json").read_text())["metadata"] == metadata
