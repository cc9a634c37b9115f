"""Next tokens of texts, predicted by a compressed decoder and by its original."""

import json
import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy, kl_div, log_softmax

import edge_embed
from edge_embed import workflow
from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.gate.effect_finding import effect_finding
from edge_embed.targets.target import NotRunError
from edge_embed.validation import sizes
from tests.genai.folders import DIM, ROWS, made_folder
from tests.validation.pair.models import pair

WORDS = [f"w{number}" for number in range(ROWS)]
TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "model": {"type": "WordLevel", "vocab": {word: at for at, word in enumerate(WORDS)}, "unk_token": "w0"},
}
IDS = np.random.default_rng(5).integers(0, ROWS, 300)  # more than a piece of 256


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder, its compressed one, and a text."""
    place = tmp_path_factory.mktemp("next_tokens")
    folder = made_folder(place / "dense")
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    workflow.compress(folder, output=place / "small", method="dpq", num_codes=16, num_groups=4)
    (place / "texts.txt").write_text("\n".join(" ".join(WORDS[at] for at in line) for line in IDS.reshape(30, 10)))
    return place


@pytest.fixture(autouse=True)
def _without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the measurement of memory, whose processes take a second each."""

    def not_measured(*_: object) -> None:
        raise NotRunError("left out")

    monkeypatch.setattr(sizes, "measure_fresh", not_measured)


def logits(model: Path, ids: NDArray[np.int64]) -> torch.Tensor:
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(edge_embed.get_library_path()))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    state = np.zeros((1, 1, 0, DIM), np.float32)
    feeds = {"input_ids": ids[None], "attention_mask": np.ones((1, len(ids)), np.int64)}
    feeds |= {f"past_key_values.0.{kind}": state for kind in ("key", "value")}
    wanted = [given.name for given in session.get_inputs()]
    (found,) = session.run(["logits"], {name: feeds[name] for name in wanted})
    return torch.from_numpy(found[0]).double()


def test_figures_are_those_of_torch(made: Path) -> None:
    report = workflow.validate(made / "dense", made / "small", texts=made / "texts.txt", iterations=0)
    pieces = [IDS[:257], IDS[256:]]  # the last token of a piece is the first of the next one
    before, after = (
        torch.cat([logits(made / folder / "model.onnx", piece[:-1]) for piece in pieces])
        for folder in ("dense", "small")
    )
    following = torch.from_numpy(IDS[1:])
    p, q = log_softmax(before, -1), log_softmax(after, -1)
    found = report.model.texts
    assert found is not None
    assert (found.tokens, found.context) == (299, 256)
    assert found.divergence == pytest.approx(float(kl_div(q, p, reduction="batchmean", log_target=True)), rel=1e-9)
    assert found.acceptance == pytest.approx(float(torch.minimum(p.exp(), q.exp()).sum(-1).mean()), rel=1e-9)
    assert found.top1 == float((before.argmax(-1) == after.argmax(-1)).double().mean())
    assert found.original_perplexity == pytest.approx(float(cross_entropy(before, following).exp()), rel=1e-9)
    assert found.perplexity == pytest.approx(float(cross_entropy(after, following).exp()), rel=1e-9)
    assert 0 < found.acceptance < 1
    assert found.divergence > 0.01


def test_report_without_texts_has_no_predictions(made: Path) -> None:
    assert workflow.validate(made / "dense", made / "small", iterations=0).model.texts is None


def test_command_shows_predictions_in_every_report(made: Path, tmp_path: Path) -> None:
    reports = ["--markdown", str(tmp_path / "report.md"), "--html", str(tmp_path / "report.html")]
    command = ["validate", str(made / "dense"), str(made / "small"), "--texts", str(made / "texts.txt"), *reports]
    done = CliRunner().invoke(main, [*command, "--iterations", "2", "--json"])
    assert done.exit_code == 0, done.output
    texts = json.loads(done.stdout)["model"]["texts"]
    assert texts["file"] == str(made / "texts.txt")
    shown = f"{texts['acceptance']:.1%}"
    assert f"| 299 | {texts['divergence']:.4g} |" in (tmp_path / "report.md").read_text()
    assert shown in (tmp_path / "report.html").read_text()
    done = CliRunner().invoke(main, [*command[:5], "--iterations", "2"], env={"COLUMNS": "200"})
    assert re.search(r"Next tokens of texts.*acceptance.*299.*" + re.escape(shown), done.stdout, re.DOTALL)


@pytest.mark.parametrize(
    ("limits", "code"),
    [("max_divergence = 100", 0), ("min_top1 = 0\nmin_acceptance = 0", 0), ("max_divergence = 1e-6", 3),
     ("min_top1 = 1", 3), ("min_acceptance = 0.999999", 3)],
)  # fmt: skip
def test_limits_of_texts_decide_exit_code(made: Path, tmp_path: Path, limits: str, code: int) -> None:
    budget = (
        f"model = '{made / 'dense'}'\nexported = '{made / 'small'}'\n[texts]\nfile = '{made / 'texts.txt'}'\n{limits}"
    )
    (tmp_path / "edge-embed.toml").write_text(budget)
    report = edge_embed.check(budget=tmp_path / "edge-embed.toml")
    assert report.exit_code == code, report.failures()
    named = [finding for finding in report.findings if finding.name.startswith("next tokens of texts: ")]
    assert len(named) == limits.count("=")
    assert all(limits.split(" ", maxsplit=1)[0] in finding.detail for finding in named if finding.status == "failed")


def test_undefined_figure_fails() -> None:
    found = effect_finding("next tokens of texts", "KL divergence", None, "texts.max_divergence", 1.0)
    assert (found.status, found.detail) == ("failed", "undefined: values are not finite (texts.max_divergence)")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", r"texts.txt: got 0 token\(s\), expected at least 2"), (b"w1", r"got 1 token\(s\)"),
     (b"w1 \xff", "is not text in UTF-8"), (None, "no such file: expected text")],
)  # fmt: skip
def test_unfit_texts_are_named(made: Path, tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "texts.txt").write_bytes(content)
    with pytest.raises(BadInputError, match=message):
        workflow.validate(made / "dense", made / "small", texts=tmp_path / "texts.txt")


def test_tokenizer_of_another_model_is_refused(made: Path, tmp_path: Path) -> None:
    vocabulary = {word: at for at, word in enumerate([*WORDS, "more"])}
    larger = {**TOKENIZER, "model": {**TOKENIZER["model"], "vocab": vocabulary}}  # type: ignore[dict-item]
    (tmp_path / "larger.json").write_text(json.dumps(larger))
    (tmp_path / "texts.txt").write_text("w1 more")
    with pytest.raises(BadInputError, match=f"id {ROWS} of larger.json, expected ids below {ROWS}"):
        options = {"texts": tmp_path / "texts.txt", "tokenizer": tmp_path / "larger.json"}
        workflow.validate(made / "dense", made / "small", **options)


def test_decoder_alone_needs_a_tokenizer(made: Path) -> None:
    files = made / "dense" / "model.onnx", made / "small" / "model.onnx"
    given = {"texts": made / "texts.txt", "tokenizer": made / "small" / "tokenizer.json", "iterations": 0}
    assert workflow.validate(*files, **given).model.texts is not None


def test_files_without_original_refuse_texts(made: Path, tmp_path: Path) -> None:
    table = edge_embed.DPQEmbedding(20, 4, num_codes=4, num_groups=2)
    edge_embed.save(table, tmp_path / "model.pt", torch.arange(5))
    edge_embed.export(tmp_path / "model.pt", "onnx", tmp_path / "model.onnx")
    with pytest.raises(BadInputError, match=r"expected them for a folder or \.onnx file that compress wrote"):
        workflow.validate(tmp_path / "model.pt", tmp_path / "model.onnx", texts=made / "texts.txt")


def test_model_without_logits_of_tokens_is_refused(made: Path, tmp_path: Path) -> None:
    given = {"texts": made / "texts.txt", "tokenizer": made / "small" / "tokenizer.json"}
    with pytest.raises(BadInputError, match=r"texts: output logits: got float32 .*expected logits"):
        workflow.validate(*pair(tmp_path), **given)


def test_missing_tokenizer_is_named(made: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"tokenizer\.json: no such file: expected the tokenizer.*--tokenizer"):
        workflow.validate(*pair(tmp_path), texts=made / "texts.txt")
