"""Study of attention heads: recorded steps, and tables and figures of a model of a few words."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from multi30k.data import Corpus, Pairs
from torch import nn

pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'edge-embed[report]'")

import attention_heads
from inflection.task import InflectionTask

import edge_embed


def test_watch_records_every_50_steps() -> None:
    layer, watch = edge_embed.SparseMultiheadAttention(8, 2, activation="learned"), attention_heads.Watch()
    for _ in range(120):
        watch(layer)
    assert watch.trajectories is not None
    assert watch.trajectories.steps == [1, 51, 101]


def test_kinds_are_those_of_nn_transformer() -> None:
    layers = edge_embed.use_sparse_attention(nn.Transformer(8, 2, 1, 1, 8, batch_first=True), "learned")
    assert {name: attention_heads._kind(name) for name in layers} == {
        "encoder.layers.0.self_attn": "encoder",
        "decoder.layers.0.self_attn": "decoder",
        "decoder.layers.0.multihead_attn": "context",
    }


@pytest.mark.slow
def test_study_has_row_for_each_layer_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    vocabulary = {name: at for at, name in enumerate(["<pad>", "<unk>", "<s>", "</s>", *"abcdef"])}
    words = torch.randint(4, 10, (64, 7))
    pairs = Pairs(words, words)
    corpus = Corpus(vocabulary, vocabulary, pairs, pairs, pairs, [])
    monkeypatch.setattr("inflection.claims.make_task", lambda options: lambda: InflectionTask(corpus))
    done = CliRunner().invoke(
        attention_heads.main, ["inflection", "--data", str(tmp_path), "--quick", "--output", str(tmp_path / "study")]
    )
    assert done.exit_code == 0, done.output
    figures = {f"{name}.svg" for name in ("alphas", "histograms", "density", "diversity", "maps")}
    assert {path.name for path in (tmp_path / "study").iterdir()} == {"heads.md", *figures}
    rows = [line.split("|")[1:-1] for line in (tmp_path / "study" / "heads.md").read_text().splitlines()]
    layers = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows if row and "attn" in row[0]}
    assert len(layers) == 6
    for alphas, softmax, entmax15, *_ in layers.values():
        assert alphas.split() == ["1.50"] * 4  # one step of training
        assert softmax == "100 %"
        assert int(entmax15.removesuffix(" %")) < 100
