"""Next tokens of texts, predicted by a traced decoder before and after compression."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import edge_embed
from edge_embed import workflow
from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.gate.budget import read_budget
from edge_embed.report.results.text_predictions import TextPredictions
from edge_embed.validation import decoder
from tests.importers.test_cached_decoder import SMALL, gpt2, llama, mamba, saved

transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install 'edge-embed[dev]'")

ROWS = SMALL["vocab_size"]
TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "model": {"type": "WordLevel", "vocab": {f"w{at}": at for at in range(ROWS)}, "unk_token": "w0"},
}
IDS = torch.from_numpy(np.random.default_rng(5).integers(0, ROWS, 600))  # two pieces of 256 and a rest
SIZES: dict[str, Any] = {"method": "dpq", "num_codes": 16, "num_groups": 4}
FIGURES = ("divergence", "top1", "acceptance", "original_perplexity", "perplexity")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder with its tokenizer, a text, and the compressed model in all its forms."""
    place = tmp_path_factory.mktemp("next_tokens")
    saved(llama, place / "chat")
    (place / "chat" / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (place / "texts.txt").write_text(" ".join(f"w{at}" for at in IDS))
    (place / "short.txt").write_text(" ".join(f"w{at}" for at in IDS[:40]))
    workflow.compress(place / "chat", **SIZES, output=place / "chat.pt")
    edge_embed.export(place / "chat.pt", "onnx", place / "chat.onnx")
    return place


@pytest.fixture(scope="module", autouse=True)
def _folder_traced_once(made: Path) -> Iterator[None]:
    """Trace the decoder of the folder once for each form: it takes most of the time of a test."""
    load = workflow.load_foreign
    known: dict[object, Any] = {}

    def load_once(path: Path, *given: Any) -> Any:
        key = (path, repr(given))
        if path != made / "chat":
            return load(path, *given)
        known[key] = known[key] if key in known else load(path, *given)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workflow, "load_foreign", load_once)
        yield


def figures(found: TextPredictions | None) -> list[float]:
    assert found is not None
    return [getattr(found, name) for name in FIGURES]


def expected(folder: Path, ids: torch.Tensor) -> list[float]:
    """Compute the figures with loops over the tokens, in float64, from the models of transformers."""
    dense = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    small, _ = edge_embed.compress(dense, **SIZES)
    rows = []
    for begin in range(0, len(ids) - 1, 256):
        piece = ids[begin : begin + 257]
        with torch.no_grad():
            before, after = (model(piece[None, :-1]).logits[0].double().softmax(-1) for model in (dense, small))
        for p, q, token in zip(before, after, piece[1:], strict=True):
            overlap = torch.minimum(p, q).sum()
            rows.append(
                [(p * (p / q).log()).sum(), p.argmax() == q.argmax(), overlap, -p[token].log(), -q[token].log()]
            )
    divergence, top1, acceptance, loss, small_loss = torch.tensor(rows, dtype=torch.float64).mean(0)
    return [float(each) for each in (divergence, top1, acceptance, loss.exp(), small_loss.exp())]


@pytest.mark.parametrize("cache", [True, False])
def test_compress_figures_are_those_of_transformers(made: Path, cache: bool) -> None:
    program = workflow.load(made / "chat", cache=cache)
    _, report = workflow.compress(program, **SIZES, texts=made / "texts.txt")
    found = report.texts
    assert found is not None
    assert (found.file, found.tokens, found.context) == (str(made / "texts.txt"), 599, 256)
    assert figures(found) == pytest.approx(expected(made / "chat", IDS), rel=1e-6, abs=1e-6)
    assert found.acceptance is not None
    assert 0.1 < found.acceptance < 0.99
    shown = re.escape(f"{found.acceptance:.1%}")
    assert re.search(rf"Next tokens of texts.*acceptance.*599.*{shown}", str(report), re.DOTALL)


def test_exported_file_has_the_figures_of_compress(made: Path) -> None:
    given = {"texts": made / "texts.txt", "original": made / "chat", "iterations": 0}
    report = workflow.validate(made / "chat.pt", made / "chat.onnx", **given)
    assert report.passed
    assert figures(report.model.texts) == pytest.approx(expected(made / "chat", IDS), rel=1e-5)


def test_exported_file_without_cache_has_the_same_figures(made: Path, tmp_path: Path) -> None:
    scores, _ = workflow.compress(workflow.load(made / "chat", cache=False), **SIZES)
    edge_embed.export(scores, "onnx", tmp_path / "scores.onnx")
    given = {"texts": made / "short.txt", "original": made / "chat", "iterations": 0}
    report = workflow.validate(scores, tmp_path / "scores.onnx", **given)
    assert figures(report.model.texts) == pytest.approx(expected(made / "chat", IDS[:40]), rel=1e-5)


def test_export_of_a_saved_folder_has_the_same_figures(made: Path, tmp_path: Path) -> None:
    dense = transformers.LlamaForCausalLM.from_pretrained(made / "chat", dtype=torch.float32)
    edge_embed.compress(dense, **SIZES).model.save_pretrained(tmp_path / "small")
    edge_embed.export(tmp_path / "small", "onnx", tmp_path / "small.onnx")
    given = {"texts": made / "short.txt", "original": made / "chat", "iterations": 0}
    report = workflow.validate(tmp_path / "small", tmp_path / "small.onnx", **given)
    assert figures(report.model.texts) == pytest.approx(expected(made / "chat", IDS[:40]), rel=1e-5)


def test_program_with_last_logits_only_reads_token_by_token(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "with_all_positions", lambda program, *_: program)
    program = workflow.load(made / "chat")
    assert decoder.program_decoder(program).reads_tokens
    _, report = workflow.compress(program, **SIZES, texts=made / "short.txt")
    assert figures(report.texts) == pytest.approx(expected(made / "chat", IDS[:40]), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("make", [llama, gpt2])
def test_traced_decoder_returns_logits_of_all_positions(tmp_path: Path, make: Any) -> None:
    model = saved(make, tmp_path)
    found = decoder.program_decoder(workflow.load(tmp_path))
    assert not found.reads_tokens
    (logits,) = found.logits(IDS[None, :30].numpy())
    torch.testing.assert_close(torch.from_numpy(logits), model(IDS[None, :30]).logits[0].detach())


def test_command_reports_the_predictions(made: Path, tmp_path: Path) -> None:
    options = ["--method", "dpq", "--num-codes", "16", "--num-groups", "4", "--texts", str(made / "short.txt")]
    command = ["compress", str(made / "chat"), "-o", str(tmp_path / "small.pt"), *options, "--json"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    texts = json.loads(done.stdout)["texts"]
    assert [texts[name] for name in FIGURES] == pytest.approx(expected(made / "chat", IDS[:40]), rel=1e-6, abs=1e-6)


def test_report_without_texts_has_no_predictions(made: Path) -> None:
    _, report = workflow.compress(made / "chat", **SIZES)
    assert report.texts is None
    assert report.to_json()["texts"] is None
    assert "Next tokens" not in str(report)


@pytest.mark.parametrize(
    ("limits", "code"),
    [("max_divergence = 100", 0), ("min_top1 = 1\nmin_acceptance = 0", 3), ("min_acceptance = 1", 3)],
)
def test_budget_limits_an_exported_file_beside_its_original(made: Path, limits: str, code: int) -> None:
    paths = "model = 'chat.pt'\nexported = 'chat.onnx'\n[texts]\nfile = 'short.txt'\noriginal = 'chat'\n"
    (made / "edge-embed.toml").write_text(paths + limits)
    report = edge_embed.check(budget=made / "edge-embed.toml")
    assert report.exit_code == code, report.failures()
    assert sum("next tokens of texts: " in finding.name for finding in report.findings) == limits.count("=")


class TestErrors:
    @pytest.mark.parametrize(
        ("content", "message"),
        [(b"w1", r"got 1 token\(s\), expected at least 2"), (b"w1 \xff", "is not text in UTF-8"),
         (None, "no such file: expected text"), (b"w1 w2 more", "use the tokenizer of this model")],
    )  # fmt: skip
    def test_unfit_text_stops_before_compression(
        self, made: Path, tmp_path: Path, content: bytes | None, message: str
    ) -> None:
        if content is not None:
            (tmp_path / "texts.txt").write_bytes(content)
        words = {f"w{at}": at for at in range(ROWS)} | {"more": ROWS}
        (tmp_path / "larger.json").write_text(
            json.dumps(TOKENIZER | {"model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}})
        )
        steps: list[str] = []
        given = {"texts": tmp_path / "texts.txt", "tokenizer": tmp_path / "larger.json"}
        with pytest.raises(BadInputError, match=message):
            workflow.compress(
                made / "chat",
                **SIZES,
                output=tmp_path / "small.pt",
                progress=lambda step, *_: steps.append(step),
                **given,
            )
        assert not steps
        assert not (tmp_path / "small.pt").exists()

    def test_missing_tokenizer_is_named(self, made: Path, tmp_path: Path) -> None:
        saved(llama, tmp_path / "chat")
        program = workflow.load(tmp_path / "chat")
        with pytest.raises(BadInputError, match=r"chat/tokenizer\.json: no such file: expected the tokenizer"):
            workflow.compress(program, **SIZES, texts=made / "short.txt")
        given = {"texts": made / "short.txt", "tokenizer": made / "chat" / "tokenizer.json"}
        assert workflow.compress(program, **SIZES, **given).report.texts is not None

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("BertForMaskedLM", "logits depend on later tokens, expected a decoder"),
            ("BertModel", r"output last_hidden_state: got float32 \[1, 3, 32\], expected logits"),
            ("BertForSequenceClassification", r"output logits: got float32 \[1, 2\], expected logits"),
        ],
    )
    def test_model_that_predicts_no_next_token_is_refused(
        self, made: Path, tmp_path: Path, name: str, message: str
    ) -> None:
        config = transformers.BertConfig(**{**SMALL, "num_attention_heads": 2}, hidden_size=32)
        torch.manual_seed(0)
        getattr(transformers, name)(config).save_pretrained(tmp_path / "bert")
        given = {"texts": made / "texts.txt", "tokenizer": made / "chat" / "tokenizer.json"}
        with pytest.raises(BadInputError, match=f"^texts: .*{message}"):
            workflow.compress(tmp_path / "bert", **SIZES, **given)

    @pytest.mark.parametrize("width", [ROWS, 2 * ROWS])
    def test_hidden_states_as_wide_as_ids_are_refused(self, made: Path, tmp_path: Path, width: int) -> None:
        sizes = {"vocab_size": ROWS, "hidden_size": width, "intermediate_size": 32, "num_attention_heads": 2}
        transformers.LlamaModel(transformers.LlamaConfig(**sizes, num_hidden_layers=1)).save_pretrained(
            tmp_path / "base"
        )
        given = {"texts": made / "texts.txt", "tokenizer": made / "chat" / "tokenizer.json"}
        with pytest.raises(
            BadInputError, match=rf"last_hidden_state: got .* expected logits .*, {ROWS}\]: give a lang"
        ):
            workflow.compress(tmp_path / "base", **SIZES, **given)

    @pytest.mark.parametrize("changed", [{"vocab_size": ROWS + 8}, {"head_dim": 8}])
    def test_original_of_other_sizes_is_refused(self, made: Path, tmp_path: Path, changed: dict[str, int]) -> None:
        config = transformers.LlamaConfig.from_pretrained(made / "chat")
        config.update(changed)
        transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "other")
        given = {"texts": made / "texts.txt", "tokenizer": made / "chat" / "tokenizer.json"}
        with pytest.raises(BadInputError, match=r"texts: .*expected .*: give the model before compression"):
            workflow.validate(made / "chat.pt", made / "chat.onnx", original=tmp_path / "other", **given)

    def test_tokenizer_of_working_folder_is_named_alone(
        self, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        given = {"texts": made / "texts.txt", "tokenizer": "absent.json"}
        with pytest.raises(BadInputError, match=r"^absent\.json: no such file"):
            workflow.compress(made / "chat", **SIZES, **given)

    def test_encoder_decoder_model_is_refused(self, made: Path, tmp_path: Path) -> None:
        sizes = {"vocab_size": ROWS, "d_model": 32, "d_kv": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}
        config = transformers.T5Config(**sizes, decoder_start_token_id=0)
        transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
        given = {"texts": made / "texts.txt", "tokenizer": made / "chat" / "tokenizer.json"}
        with pytest.raises(BadInputError, match=r"decoder_input_ids.*expected a decoder with one, .*: leave texts"):
            workflow.compress(workflow.load(tmp_path / "t5"), **SIZES, **given)

    def test_model_with_a_fixed_length_is_refused(self, made: Path, tmp_path: Path) -> None:
        saved(mamba, tmp_path / "mamba")
        given = {"texts": made / "texts.txt", "tokenizer": made / "chat" / "tokenizer.json"}
        with pytest.raises(BadInputError, match="expected a decoder with one, "):
            workflow.compress(tmp_path / "mamba", **SIZES, **given)

    def test_text_longer_than_the_positions_is_refused(self, made: Path, tmp_path: Path) -> None:
        saved(gpt2, tmp_path / "gpt2")  # 128 positions
        given = {"texts": made / "texts.txt", "tokenizer": made / "chat" / "tokenizer.json"}
        with pytest.raises(BadInputError, match=r"the model fails on 256 token\(s\) \(IndexError"):
            workflow.compress(tmp_path / "gpt2", **SIZES, **given)

    def test_compress_of_another_form_refuses_texts(self, made: Path, tmp_path: Path) -> None:
        with pytest.raises(BadInputError, match=r"for a module, .*: write the model and give the path"):
            workflow.compress(torch.nn.Embedding(20, 4), texts=made / "texts.txt")
        with pytest.raises(BadInputError, match=r"chat\.onnx, expected a transformers folder or a saved model"):
            workflow.compress(made / "chat.onnx", output=tmp_path / "a.onnx", texts=made / "texts.txt")
        with pytest.raises(BadInputError, match=r"tokenizer: got .* without texts"):
            workflow.compress(made / "chat", tokenizer=made / "chat" / "tokenizer.json")

    def test_text_as_output_is_refused(self, made: Path) -> None:
        with pytest.raises(BadInputError, match=r"texts\.txt"):
            workflow.compress(made / "chat", **SIZES, output=made / "texts.txt", force=True, texts=made / "texts.txt")

    def test_original_of_another_form_is_refused(self, made: Path, tmp_path: Path) -> None:
        files = made / "chat.pt", made / "chat.onnx"
        with pytest.raises(BadInputError, match=r"original: got .*chat without texts"):
            workflow.validate(*files, original=made / "chat")
        with pytest.raises(BadInputError, match="its model before compression: give that model as `original`"):
            workflow.validate(*files, texts=made / "texts.txt")
        edge_embed.save(torch.nn.Embedding(ROWS, 4), tmp_path / "other.pt", torch.arange(6).reshape(2, 3))
        given = {"texts": made / "texts.txt", "tokenizer": made / "chat" / "tokenizer.json"}
        with pytest.raises(BadInputError, match=r"got the inputs input_ids, .*: give the model before compression"):
            workflow.validate(*files, original=tmp_path / "other.pt", **given)

    @pytest.mark.parametrize(
        ("content", "message"),
        [("file = 'none.txt'\noriginal = 'chat'", r"none\.txt: no such file"), ("file = 'short.txt'", "texts: got "),
         ("file = 'short.txt'\noriginal = 'none'", r"none: ")],
    )  # fmt: skip
    def test_error_about_texts_names_the_budget(self, made: Path, content: str, message: str) -> None:
        budget = made / "texts.toml"
        budget.write_text(f"model = 'chat.pt'\nexported = 'chat.onnx'\n[texts]\n{content}\n")
        with pytest.raises(BadInputError, match=rf"texts\.toml: .*{message}"):
            edge_embed.check(budget=budget)

    def test_unknown_key_lists_keys_in_the_order_of_the_documentation(self, tmp_path: Path) -> None:
        (tmp_path / "budget.toml").write_text("[texts]\nlimit = 1")
        order = "expected one of file, original, max_divergence, min_top1, min_acceptance"
        with pytest.raises(BadInputError, match=order):
            read_budget(tmp_path / "budget.toml")
