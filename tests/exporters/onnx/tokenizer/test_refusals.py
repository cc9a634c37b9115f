"""Tokenizer files that are refused: with a clear message, exit code 2, no output and no crash, for any content."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import edge_embed
from edge_embed.cli import main
from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.exporters.onnx.tokenizer.source import read_tokenizer
from edge_embed.validation import tokenizer as tokenizer_check
from edge_embed.workflow import load

from .conftest import MEAN_EXAMPLE, ROWS, Mean

Saved = Callable[[str], Path]
Changed = Callable[[str, dict[str, Any]], Path]


def refused(model: nn.Module, example: Any, tokenizer: Path, match: str, **options: Any) -> None:
    """Assert that an export ends with a clear message and writes nothing."""
    output = tokenizer.parent / "refused.onnx"
    with pytest.raises(BadInputError, match=match):
        edge_embed.export(model, "onnx", output, example, tokenizer=tokenizer, **options)
    assert not list(tokenizer.parent.glob("*refused*"))


class TestTokenizers:
    @pytest.mark.parametrize(
        ("kind", "parts", "match"),
        [
            ("BPE", {"model.type": "Unigram"}, "Unigram.*run the tokenizer in front"),
            ("BPE", {"normalizer": {"type": "NFC"}}, "normalizer 'NFC' for a BPE"),
            ("BPE", {"pre_tokenizer": {"type": "Metaspace"}}, "pre_tokenizer 'Metaspace'.*expected ByteLevel"),
            ("BPE", {"pre_tokenizer.add_prefix_space": True}, "add_prefix_space=false"),
            ("BPE", {"model.byte_fallback": True}, "byte_fallback=True"),
            ("BERT cased", {"normalizer": {"type": "NFC"}}, "normalizer 'NFC', expected one of BertNormalizer"),
            ("BERT cased", {"normalizer": {"type": "NFD"}}, "without StripAccents"),
            ("BERT cased", {"model.unk_token": "[none]"}, "unk_token.*missing in its vocabulary"),
            ("BERT cased", {"pre_tokenizer": None}, "pre_tokenizer None"),
            ("words at spaces", {"truncation": {"max_length": 0, "strategy": "OnlySecond", "stride": 0,
                                                "direction": "Right"}}, "strategy 'OnlySecond'"),
        ],
    )  # fmt: skip
    def test_tokenizer_part_that_would_differ_is_named(
        self, kind: str, parts: dict[str, Any], match: str, changed: Changed
    ) -> None:
        refused(Mean(), MEAN_EXAMPLE, changed(kind, parts), match)

    def test_tokenizer_bytes_without_token_are_counted(self, changed: Changed, saved: Saved) -> None:
        model = json.loads(saved("BPE").read_text(encoding="utf-8"))["model"]
        del model["vocab"]["Ā"]
        model["merges"] = [pair for pair in model["merges"] if "Ā" not in "".join(pair)]
        refused(Mean(), MEAN_EXAMPLE, changed("BPE", {"model": model}), "1 of the 256 bytes are missing")

    def test_texts_with_other_ids_than_library_are_counted(self, saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
        library_feeds = tokenizer_check.library_feeds

        def one_off(*arguments: Any) -> Any:
            return {name: made + 1 for name, made in library_feeds(*arguments).items()}

        monkeypatch.setattr(tokenizer_check, "library_feeds", one_off)
        refused(Mean(), MEAN_EXAMPLE, saved("BERT cased"), r"other ids .* for \d+ of \d+ texts")

    def test_tokenizer_operator_that_ends_process_is_an_error(
        self, saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = tmp_path / "dies.py"
        program.write_text("import os\nos.abort()\n")
        monkeypatch.setattr(tokenizer_check.tokenizer_run, "__file__", str(program))
        refused(Mean(), MEAN_EXAMPLE, saved("BERT cased"), "ended with signal 6")


class TestModels:
    def test_tokenizer_with_more_ids_than_rows_gives_both_numbers(self, saved: Saved) -> None:
        tokens = len(json.loads(saved("BERT cased").read_text(encoding="utf-8"))["model"]["vocab"])
        refused(Mean(tokens - 1), MEAN_EXAMPLE, saved("BERT cased"), f"{tokens} ids, expected at most {tokens - 1}")

    def test_length_that_file_does_not_make_is_refused(self, saved: Saved) -> None:
        shapes = {name: {0: torch.export.Dim.DYNAMIC} for name in MEAN_EXAMPLE}
        match = r"expects 3 ids a row.*enable_truncation\(3\)"
        refused(Mean(), MEAN_EXAMPLE, saved("BERT cased"), match, dynamic_shapes=shapes)

    def test_input_that_no_tokenizer_makes_is_refused(self, saved: Saved) -> None:
        class Weighted(Mean):
            def forward(self, ids: Tensor, weights: Tensor) -> Tensor:
                return (self.embedding(ids) * weights[..., None]).sum(1)

        example = {"ids": MEAN_EXAMPLE["ids"], "weights": torch.ones(2, 3)}
        refused(Weighted(), example, saved("BERT cased"), "input weights: has the length of the ids")

    def test_inputs_for_ids_need_a_name(self, saved: Saved, tmp_path: Path) -> None:
        class Two(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.text = edge_embed.DPQEmbedding(ROWS, 4, num_codes=4, num_groups=2)
                self.user = edge_embed.DPQEmbedding(5, 4, num_codes=4, num_groups=2)

            def forward(self, words: Tensor, user: Tensor) -> Tensor:
                return self.text(words).mean(1) + self.user(user)

        example = {"words": torch.tensor([[1, 2], [3, 4]]), "user": torch.tensor([1, 2])}
        refused(Two(), example, saved("BERT cased"), "words, user.*--tokenizer-input")
        output = tmp_path / "two.onnx"
        edge_embed.export(Two(), "onnx", output, example, tokenizer=saved("BERT cased"), tokenizer_input="words")
        assert [item.name for item in edge_embed.create_session(output).get_inputs()] == ["text", "user"]

    def test_vocabulary_of_model_must_match_tokenizer(self, saved: Saved, tmp_path: Path) -> None:
        words = [f"word {number}" for number in range(ROWS)]
        edge_embed.save(Mean(), tmp_path / "model.pt", MEAN_EXAMPLE, vocabulary=words)
        with pytest.raises(BadInputError, match=r"id 0 is '\[PAD\]', expected 'word 0'"):
            edge_embed.export(tmp_path / "model.pt", "onnx", tmp_path / "out.onnx", tokenizer=saved("BERT cased"))


class TestDamage:
    def test_command_line_ends_with_code_2(self, saved: Saved, tmp_path: Path) -> None:
        edge_embed.save(Mean(), tmp_path / "model.pt", MEAN_EXAMPLE)
        content = saved("BERT cased").read_bytes()
        damaged = {
            "cut": content[: len(content) // 2],
            "empty": b"",
            "no JSON": b"\x80\x04K\x01.",
            "deep": b"[" * 200_000,
            "a list": b"[1, 2]",
            "digits": b'{"model": {"type": ' + b"9" * 10_000 + b"}}",
            "nan": b'{"model": {"type": "BPE", "vocab": {"a": NaN}}}',
        }
        for what, data in damaged.items():
            (tmp_path / "tokenizer.json").write_bytes(data)
            names = [tmp_path / "model.pt", "--tokenizer", tmp_path / "tokenizer.json", "-o", tmp_path / "out.onnx"]
            done = CliRunner().invoke(main, ["export", "--target", "onnx", *map(str, names)])
            assert (done.exit_code, what) == (2, what)
            assert "tokenizer.json" in done.stderr
            assert not (tmp_path / "out.onnx").exists()

    @settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_tokenizer_with_any_value_anywhere_is_read_or_refused(
        self, data: st.DataObject, saved: Saved, tmp_path: Path
    ) -> None:
        kind = data.draw(st.sampled_from(["BPE", "BERT cased", "words and signs"]))
        content = json.loads(saved(kind).read_text(encoding="utf-8"))
        owners: list[tuple[Any, Any]] = []
        _collect(content, owners)
        owner, key = data.draw(st.sampled_from(owners))
        owner[key] = data.draw(_VALUES)
        path = tmp_path / "tokenizer.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        with suppress(EdgeEmbedError):  # any other exception would be a traceback for a user
            read_tokenizer(path)

    @pytest.mark.slow
    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_tokenizer_that_is_read_runs_or_is_refused(
        self, data: st.DataObject, changed: Changed, saved: Saved
    ) -> None:
        kind = data.draw(st.sampled_from(["RoBERTa", "BERT cased"]))
        model = json.loads(saved(kind).read_text(encoding="utf-8"))["model"]
        tokens = data.draw(st.dictionaries(st.text(max_size=3), st.integers(0, 2000), min_size=1, max_size=4))
        parts = {"model.vocab": model["vocab"] | tokens, "added_tokens": []}
        if kind == "RoBERTa":
            pairs = st.tuples(*(st.sampled_from(sorted(model["vocab"])),) * 2)
            parts["model.merges"] = [*model["merges"], *data.draw(st.lists(pairs, max_size=4))]
        else:
            parts["model.max_input_chars_per_word"] = data.draw(st.integers(0, 2**64 - 1))
            parts["model.continuing_subword_prefix"] = data.draw(st.text(max_size=3))
        example = load(Mean(3000), MEAN_EXAMPLE)
        with suppress(EdgeEmbedError):
            tokenizer_check.fit_tokenizer(changed(kind, parts), example, None)


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**31, 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.just([["a"]]),
    st.just({"type": "Sequence"}),
    st.just({"type": []}),
)


def _collect(value: Any, owners: list[tuple[Any, Any]]) -> None:
    """Collect every place in a file, but few places of its long lists."""
    keys: list[Any] = list(value)[:8] if isinstance(value, dict) else list(range(min(3, len(value))))
    for key in keys:
        owners.append((value, key))
        if isinstance(value[key], dict | list):
            _collect(value[key], owners)
