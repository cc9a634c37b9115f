"""Translations: the data, and the words that the model may read."""

import math
from pathlib import Path

import pytest
import torch
from multi30k.data import Corpus, Pairs, read
from multi30k.density import densities
from multi30k.model import PLACES, WIDTH, Translator
from multi30k.task import TranslationTask
from torch import Tensor, nn
from torch.nn import functional

import edge_embed

SIZES = {"source": 9, "target": 7}


@pytest.fixture
def model() -> Translator:
    torch.manual_seed(0)
    return Translator(nn.ModuleDict({name: nn.Embedding(rows, WIDTH) for name, rows in SIZES.items()})).eval()


class TestData:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        texts = {
            "train": ("a man\na a man runs\n" + "a " * 13, "ein mann\nein ein mann mann\nein"),
            "val": ("a dog\n", "ein hund\n"),
            "test_2016_flickr": ("man\na\n", "mann\nein ein ein\n"),
        }
        for name, (english, german) in texts.items():
            (tmp_path / f"{name}.lc.norm.tok.en").write_text(english, encoding="utf-8")
            (tmp_path / f"{name}.lc.norm.tok.de").write_text(german, encoding="utf-8")
        return tmp_path

    def test_short_pairs_are_read_as_rows(self, folder: Path) -> None:
        corpus = read(folder)
        assert corpus.source_vocabulary == {"<pad>": 0, "<unk>": 1, "a": 2}  # three times at least
        assert corpus.training.source.tolist() == [[2, 1, 0, 0], [2, 2, 1, 1]]
        begin, end, ein, mann = (corpus.target_vocabulary.get(word, 1) for word in ("<s>", "</s>", "ein", "mann"))
        assert corpus.training.target.tolist() == [[begin, ein, mann, end, 0, 0], [begin, ein, ein, mann, mann, end]]
        assert corpus.validation.target.tolist() == [[begin, ein, 1, end]]
        assert len(corpus.test) == 2
        assert corpus.references == ["mann", "ein ein ein"]  # rare words too

    def test_corpus_may_be_read_in_part(self, folder: Path) -> None:
        corpus = read(folder, most=1)
        assert len(corpus.training) == len(corpus.test) == 1


class TestModel:
    def test_future_words_are_masked(self, model: Translator) -> None:
        source, target = torch.randint(1, 9, (2, 5)), torch.randint(1, 7, (2, 6))
        other = target.clone()
        other[:, 4:] = target[:, 4:] % 6 + 1
        got, expected = model(source, other), model(source, target)
        torch.testing.assert_close(got[:, :4], expected[:, :4])
        assert not torch.allclose(got[:, 4:], expected[:, 4:])

    def test_source_sentence_is_read_without_its_padding(self, model: Translator) -> None:
        source, target = torch.tensor([[3, 4]]), torch.tensor([[2, 3, 4]])
        padded, other = torch.tensor([[3, 4, 0, 0]]), torch.tensor([[3, 5]])
        torch.testing.assert_close(model(source, target), model(padded, target))
        assert not torch.allclose(model(source, target), model(other, target))

    def test_output_layer_shares_target_table(self, model: Translator) -> None:
        assert model.get_parameter("words.weight") is model.get_parameter("table.target.weight")


class Even(nn.Module):
    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return torch.zeros(*target.shape, SIZES["target"])


class TestDensity:
    def test_density_counts_allowed_keys_of_words(self, model: Translator) -> None:
        """Softmax uses all of them; of padded words and later ones no layer uses any."""
        source, target = torch.tensor([[3, 4, 0, 0], [3, 4, 5, 6]]), torch.tensor([[2, 3, 4], [2, 3, 0]])
        found = densities(model, source, target)
        assert list(found) == [
            "encoder.layers.0.self_attn", "decoder.layers.0.self_attn", "decoder.layers.0.multihead_attn",
        ]  # fmt: skip
        assert list(found.values()) == pytest.approx([100] * 3)

    def test_density_of_one_key_is_its_share(self, model: Translator) -> None:
        edge_embed.use_sparse_attention(model, "sparsemax")
        with torch.no_grad():
            for layer in (*model.encoder.layers, *model.decoder.layers):
                layer.self_attn.in_proj_weight.mul_(300)  # one key takes all
        found = densities(model, torch.tensor([[3, 4, 5, 6]]), torch.tensor([[2, 3, 4, 0]]))
        assert found["encoder.layers.0.self_attn"] == pytest.approx(100 / 4)
        assert found["decoder.layers.0.self_attn"] == pytest.approx(100 * (1 + 1 / 2 + 1 / 3) / 3)


class TestTask:
    @pytest.fixture
    def task(self) -> TranslationTask:
        lengths = torch.randint(2, 7, (200, 1))
        ids = torch.randint(1, 7, (200, 7)) * (torch.arange(7) < lengths)
        pairs = Pairs(ids, ids)
        return TranslationTask(Corpus({}, {}, pairs, pairs, pairs[:5], []))

    def test_perplexity_of_uniform_model_is_vocabulary_size(self, task: TranslationTask) -> None:
        for part in ("validation", "test"):
            assert task.score(Even(), part) == pytest.approx(7, rel=1e-5)  # type: ignore[arg-type]

    def test_perplexity_counts_every_word_once(self, task: TranslationTask, model: Translator) -> None:
        """The mean is over words, not batches: the last batch has fewer sentences, of several lengths."""
        pairs = task.corpus.validation
        losses = []
        with torch.no_grad():
            for words in pairs.target:
                known = words[words != 0].unsqueeze(0)
                losses += (
                    model(known, known[:, :-1])[0].log_softmax(-1).gather(1, known[0, 1:, None]).flatten().tolist()
                )
            assert task.score(model, "validation") == pytest.approx(math.exp(-sum(losses) / len(losses)), rel=1e-4)

    def test_epoch_has_every_pair_once(self, task: TranslationTask) -> None:
        rows = [words for source, _ in task.batches() for words in source.tolist()]
        expected = sorted([word for word in row if word] for row in task.corpus.training.source.tolist())
        assert sorted([word for word in row if word] for row in rows) == expected


class Dictionary(nn.Module):
    """A model that gives each word's translation, which has the same id, and then the end."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        ended = torch.full((len(source), 1), VOCABULARY["</s>"])
        following = torch.cat([source.masked_fill(source == 0, VOCABULARY["</s>"]), ended], 1)[:, : target.shape[1]]
        return functional.one_hot(following, len(VOCABULARY)).float()


VOCABULARY = {word: at for at, word in enumerate(["<pad>", "<unk>", "<s>", "</s>", "ein", "hund", "läuft", "schnell"])}


class TestTranslations:
    """Greedy translations of "ein hund läuft schnell" and "ein hund läuft", with BLEU from sacrebleu."""

    @pytest.fixture
    def pairs(self) -> Pairs:
        source = torch.tensor([[4, 5, 6, 7], [4, 5, 6, 0]])
        return Pairs(source, source)

    def bleu(self, pairs: Pairs, references: list[str], model: nn.Module) -> float:
        task = TranslationTask(Corpus({}, VOCABULARY, pairs, pairs, pairs, references))
        return task.bleu(model)  # type: ignore[arg-type]

    def test_translations_that_are_right_have_bleu_100(self, pairs: Pairs) -> None:
        assert self.bleu(pairs, ["ein hund läuft schnell", "ein hund läuft"], Dictionary()) == pytest.approx(100)

    def test_words_without_id_count_as_wrong(self, pairs: Pairs) -> None:
        unknown = Pairs(pairs.source.masked_fill(pairs.source == 6, 1), pairs.target)
        assert self.bleu(unknown, ["ein hund läuft schnell", "ein hund läuft"], Dictionary()) < 50

    def test_translation_stops_at_its_end(self, pairs: Pairs) -> None:
        """The shorter sentence goes on in the batch with the longer one, and no word of it counts."""
        task = TranslationTask(Corpus({}, VOCABULARY, pairs, pairs, pairs, []))
        assert task._translations(Dictionary(), pairs.source) == [
            ["ein", "hund", "läuft", "schnell"],
            ["ein", "hund", "läuft"],
        ]  # type: ignore[arg-type]

    def test_translation_without_end_is_cut(self, pairs: Pairs, model: Translator) -> None:
        task = TranslationTask(Corpus({}, {str(at): at for at in range(7)} | {"<s>": 2, "</s>": 9}, *[pairs] * 3, []))
        (words, _) = task._translations(model, pairs.source)
        assert len(words) <= PLACES - 1
