"""Translations word by word: the cached parts beside the whole model, and beam search beside all translations."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from multi30k.cached import Decoder, Encoder
from multi30k.data import Corpus, Pairs
from multi30k.model import Translator
from multi30k.search import Array, ExportedTranslator, translate
from multi30k.task import TranslationTask
from torch import nn

import edge_embed

WIDTH, ROWS = 16, 6
BEGIN, END, MOST = 2, 3, 3


@pytest.mark.parametrize("activation", ["softmax", "learned"])
def test_cached_parts_score_as_whole_model(activation: str) -> None:
    torch.manual_seed(0)
    tables = nn.ModuleDict({name: nn.Embedding(9, WIDTH) for name in ("source", "target")})
    model = Translator(tables, num_layers=2).eval()
    edge_embed.use_sparse_attention(model, activation)
    source, target = torch.randint(1, 9, (3, 5)), torch.randint(1, 9, (3, 4))
    source[1, 3:] = 0
    with torch.no_grad():
        expected = model(source, target)
        states, past = Encoder(model)(source), [torch.zeros(3, 0, WIDTH)] * 2
        for at in range(4):
            logits, *past = Decoder(model)(source, states, target[:, at : at + 1], *past)
            torch.testing.assert_close(logits[:, 0], expected[:, at])


class Chances:
    """Translator whose next word depends on all words so far; the past is those words."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        logits = random.normal(0, 2, (ROWS,) * (MOST + 1))
        self.table = {
            words: logits[words + (slice(None),) + (0,) * (MOST - len(words))]
            for length in range(1, MOST + 1)
            for words in itertools.product(range(ROWS), repeat=length)
        }

    def read(self, source: Array) -> tuple[Array, Array, list[Array]]:
        return source, source, [np.zeros((1, 0), np.int64)]

    def step(self, source: Array, states: Array, words: Array, past: list[Array]) -> tuple[Array, list[Array]]:
        seen = np.column_stack((past[0], words))
        return np.stack([self.chances(tuple(row)) for row in seen.tolist()]), [seen]

    def chances(self, words: tuple[int, ...]) -> Array:
        logits = self.table[words]
        return np.asarray(logits - np.log(np.exp(logits).sum()))

    def score(self, words: Sequence[int]) -> float:
        """Return the mean log probability of words and the end."""
        text = (BEGIN, *words, END)
        return sum(self.chances(text[:at])[text[at]] for at in range(1, len(text))) / (len(text) - 1)


@pytest.mark.parametrize("seed", range(20))
def test_wide_beam_finds_best_of_all_translations(seed: int) -> None:
    model = Chances(seed)
    others = [at for at in range(ROWS) if at != END]
    every = [words for length in range(MOST) for words in itertools.product(others, repeat=length)]
    best = max(every, key=model.score)
    assert translate(model, np.zeros(2, int), BEGIN, END, ROWS**MOST, MOST) == list(best)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_beam_of_one_takes_most_probable_word_each_time(seed: int) -> None:
    model, words = Chances(seed), (BEGIN,)
    while len(words) <= MOST and (word := int(model.chances(words).argmax())) != END:
        words += (word,)
    assert translate(model, np.zeros(2, int), BEGIN, END, 1, MOST) == list(words[1:])  # type: ignore[arg-type]


@pytest.mark.slow
def test_exported_parts_translate_as_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    names = [f"w{at}" for at in range(40)]
    vocabulary = {name: at for at, name in enumerate(["<pad>", "<unk>", "<s>", "</s>", *names])}
    source = torch.randint(4, 44, (3, 5))
    pairs = Pairs(source, source)
    task = TranslationTask(Corpus(vocabulary, vocabulary, pairs, pairs, pairs, []))
    model = task.model(lambda rows: edge_embed.DPQEmbedding(rows, 32, 16, 8, padding_idx=0)).eval()
    edge_embed.use_sparse_attention(model, "learned")
    with torch.no_grad():
        expected = task.translated(model, source)
        states = Encoder(model)(source)
    files = tmp_path / "encoder.onnx", tmp_path / "decoder.onnx"
    edge_embed.export(Encoder(model).eval(), "onnx", files[0], source)
    edge_embed.export(Decoder(model).eval(), "onnx", files[1], (source, states, source[:, :1], torch.zeros(3, 2, 32)))
    for portable in (False, True):
        translator = ExportedTranslator(*files, portable)
        found = [translate(translator, row.numpy(), BEGIN, END, 1, task.places - 1) for row in source]
        assert [[list(vocabulary)[at] for at in words] for words in found] == expected
