"""Data that the samples read: small archives, and the files in them."""

import io
import json
import tarfile
from pathlib import Path

import click
import numpy as np
import pytest
import torch
from ag_news import data as ag_news
from ag_news.model import WIDTH
from ag_news.sample import NewsTask
from amazon_video import data as amazon_video
from datasets import number_words, unpacked
from pretrained import language_model, segmenter
from torch import nn
from wikitext2 import data as wikitext2


def archive(folder: Path, name: str, member: str, content: bytes = b"text") -> Path:
    path = folder / f"{name}.tar.xz"
    with tarfile.open(path, "w:xz") as files:
        info = tarfile.TarInfo(member)
        info.size = len(content)
        files.addfile(info, io.BytesIO(content))
    return path


class TestUnpacked:
    def test_unpacked_gives_folder_and_leaves_nothing(self, tmp_path: Path) -> None:
        path = archive(tmp_path, "set", "set/words.txt", b"a b")
        with unpacked(tmp_path, "set") as folder:
            assert (folder / "words.txt").read_bytes() == b"a b"
        assert not folder.exists()
        assert list(tmp_path.iterdir()) == [path]

    def test_missing_archive_is_named_with_remedy(self, tmp_path: Path) -> None:
        with (
            pytest.raises(click.ClickException, match=r"set\.tar\.xz is missing: --data expects"),
            unpacked(tmp_path, "set"),
        ):
            pass

    @pytest.mark.parametrize("kept", [0, 10, 60])
    def test_damaged_archive_is_named(self, tmp_path: Path, kept: int) -> None:
        path = archive(tmp_path, "set", "set/words.txt")
        path.write_bytes(path.read_bytes()[:kept])
        with pytest.raises(click.ClickException, match=r"set\.tar\.xz cannot be unpacked"), unpacked(tmp_path, "set"):
            pass

    def test_member_outside_folder_is_refused(self, tmp_path: Path) -> None:
        archive(tmp_path, "set", "../../outside.txt")
        with pytest.raises(click.ClickException, match="cannot be unpacked"), unpacked(tmp_path, "set"):
            pass
        assert not (tmp_path.parent / "outside.txt").exists()

    def test_missing_file_of_archive_is_named(self, tmp_path: Path) -> None:
        archive(tmp_path, "set", "set/words.txt")
        named = pytest.raises(click.ClickException, match=r"set\.tar\.xz contains no set/train\.tsv")
        with named, unpacked(tmp_path, "set") as folder:
            (folder / "train.tsv").read_text()
        with pytest.raises(FileNotFoundError), unpacked(tmp_path, "set"):
            (tmp_path / "elsewhere").read_text()

    def test_archive_without_expected_folder_is_refused(self, tmp_path: Path) -> None:
        archive(tmp_path, "set", "other/words.txt")
        with pytest.raises(click.ClickException, match="contains no folder set"), unpacked(tmp_path, "set"):
            pass


def test_words_are_numbered_by_frequency() -> None:
    assert number_words("b a c b a b d".split(), least=2) == {"<pad>": 0, "<unk>": 1, "b": 2, "a": 3}


def test_ag_news_is_read_into_ids_and_classes(tmp_path: Path) -> None:
    (tmp_path / "train_20k.csv").write_text(
        'label,source,text\n3,desc,"Oil, oil prices ""rise"""\n1,desc,Prices rise 20\n', encoding="utf-8"
    )
    (tmp_path / "test.csv").write_text('"2","Oil","prices of Oil"\n', encoding="utf-8")
    vocabulary, training, testing = ag_news.read(tmp_path)
    assert vocabulary == {"<pad>": 0, "<unk>": 1, "oil": 2, "prices": 3, "rise": 4}
    assert training.ids.shape == (2, 60)
    assert training.ids[:, :5].tolist() == [[2, 2, 3, 4, 0], [3, 4, 1, 0, 0]]
    assert training.classes.tolist() == [2, 0]
    assert testing.ids[0, :5].tolist() == [2, 3, 1, 2, 0]
    assert testing.classes.tolist() == [1]


def test_texts_in_public_layout_are_read_in_place_of_ag_news(tmp_path: Path) -> None:
    """The layout of AG News, DBpedia, Yahoo! Answers and Yelp: one to three texts a row, and no header."""
    (tmp_path / "train.csv").write_text(
        '"5","why is oil","","oil is\\nwet"\n"1","wet ""oil""","",""\n', encoding="utf-8"
    )
    (tmp_path / "test.csv").write_text('"2","is it","oil","?"\n', encoding="utf-8")
    with ag_news.news_folder(tmp_path) as folder:
        assert folder == tmp_path
        vocabulary, training, testing = ag_news.read(folder)
    assert vocabulary == {"<pad>": 0, "<unk>": 1, "oil": 2, "is": 3, "wet": 4}
    assert training.ids[:, :6].tolist() == [[1, 3, 2, 2, 3, 4], [4, 2, 0, 0, 0, 0]]
    assert training.classes.tolist() == [4, 0]
    assert testing.ids[0, :4].tolist() == [3, 1, 2, 0]
    task = NewsTask(vocabulary, training, testing, held_out=0)
    model = task.model(lambda words: nn.EmbeddingBag(words, WIDTH, padding_idx=0))
    assert model(testing.ids).shape == (1, 5)


@pytest.mark.parametrize(
    ("row", "named"), [("label,text", "'label'"), ("0,oil", "'0'"), ("3", "'3'"), ("-1,oil", "'-1'")]
)
def test_row_without_class_or_text_is_named(tmp_path: Path, row: str, named: str) -> None:
    (tmp_path / "train.csv").write_text(f"1,oil\n\n{row}\n", encoding="utf-8")
    said = rf"train\.csv, line 3: got a row that begins with {named}, expected a class from 1 on and texts"
    with pytest.raises(click.ClickException, match=said):
        ag_news.read(tmp_path)


def test_missing_file_of_public_layout_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("1,oil\n", encoding="utf-8")
    named = pytest.raises(click.ClickException, match=r"test\.csv is missing: it belongs to the other files of")
    with named, ag_news.news_folder(tmp_path) as folder:
        ag_news.read(folder)


def test_folder_without_public_layout_is_that_of_archives(tmp_path: Path) -> None:
    archive(tmp_path, "agnews20k", "agnews20k/train_20k.csv", b"label,source,text\n1,desc,oil\n")
    with ag_news.news_folder(tmp_path) as folder:
        assert (folder / "train_20k.csv").is_file()


@pytest.mark.parametrize("pattern", ["ptb.{}.txt", "wiki.{}.tokens"])
def test_language_model_reads_public_layouts(tmp_path: Path, pattern: str) -> None:
    for part, words in {"train": " a b <unk> \n b N \n", "valid": " b c \n", "test": " N \n"}.items():
        (tmp_path / pattern.format(part)).write_text(words, encoding="utf-8")
    with wikitext2.text_folder(tmp_path) as folder:
        assert wikitext2.is_public(folder)
        text = wikitext2.read(folder, least=5)
    a, b, number, end = (text.vocabulary[word] for word in ("a", "b", "N", "<eos>"))
    assert len(text.vocabulary) == 6  # all words of the training text, which has its own <unk>
    assert text.training.tolist() == [a, b, 1, end, b, number, end]
    assert text.validation.tolist() == [b, 1, end]
    assert text.test.tolist() == [number, end]


def test_wikitext2_is_read_into_ids_and_windows(tmp_path: Path) -> None:
    (tmp_path / "wiki.valid.txt").write_text(" a b a \n a <unk> b \n a b \n", encoding="utf-8")
    (tmp_path / "wiki.test.txt").write_text(" b z \n", encoding="utf-8")
    text = wikitext2.read(tmp_path, least=2)
    a, b, end = (text.vocabulary[word] for word in ("a", "b", "<eos>"))
    assert len(text.vocabulary) == 5  # <unk> has one id only
    assert torch.cat((text.training, text.validation)).tolist() == [a, b, a, end, a, 1, b, end, a, b, end]
    assert len(text.validation) == 1  # one word in ten
    assert text.test.tolist() == [b, 1, end]
    begun = text.begin(2)
    assert [part.tolist() for part in (begun.training, begun.validation, begun.test)] == [[a, b], [end], [b, 1]]
    assert wikitext2.windows(torch.arange(8), 3).tolist() == [[0, 1, 2, 3], [3, 4, 5, 6]]


class TestAmazonVideo:
    @pytest.fixture
    def video(self, tmp_path: Path) -> Path:
        (tmp_path / "Video.txt").write_text("1 7\n1 8\n1 9\n2 9\n2 7\n3 9\n3 8\n3 7\n3 9\n", encoding="ascii")
        return tmp_path

    def test_users_are_rows_in_time_order(self, video: Path) -> None:
        histories = amazon_video.read(video, least=1)
        seven, eight, nine = 2, 3, 1  # by frequency; user 2 has too few items
        assert histories.num_items == 4
        assert histories.items.shape == (2, 22)
        assert histories.items[:, -4:].tolist() == [[0, seven, eight, nine], [nine, eight, seven, nine]]

    def test_first_users_keep_ids_of_all_items(self, video: Path) -> None:
        histories = amazon_video.read(video, least=1)
        begun = histories.begin(1)
        assert begun.num_items == histories.num_items
        assert begun.items.tolist() == histories.items[:1].tolist()

    def test_tested_items_are_not_trained_on(self, video: Path) -> None:
        histories = amazon_video.read(video, least=1)
        for part, last in (("validation", 20), ("test", 21)):
            before, following = histories.part(part)
            assert before.tolist() == histories.items[:, last - 20 : last].tolist()
            assert following.tolist() == histories.items[:, last].tolist()
        assert histories.training.tolist() == histories.items[:, :20].tolist()

    def test_rare_items_are_left_out(self, video: Path) -> None:
        histories = amazon_video.read(video, least=3)
        assert histories.num_items == 3
        assert histories.items[:, -3:].tolist() == [[1, 2, 1]]  # user 3 without item 8


class TestLanguageModel:
    def test_lstm_gates_match_book(self, tmp_path: Path) -> None:
        """An LSTM in numpy has the gates forget, candidate, input, output in this order."""
        random = np.random.default_rng(0)
        sizes = {
            "embed": (7, 100),
            "lstm_Wx": (100, 400),
            "lstm_Wh": (100, 400),
            "lstm_b": (400,),
            "affine_W": (100, 7),
            "affine_b": (7,),
        }
        arrays = {name: random.normal(scale=0.3, size=size).astype(np.float16) for name, size in sizes.items()}
        np.savez(tmp_path / "model.npz", **arrays)
        model = language_model.load(tmp_path / "model.npz")
        ids = [3, 0, 6]
        wide = {name: array.astype(np.float64) for name, array in arrays.items()}
        state, cell = np.zeros(100), np.zeros(100)
        for row in wide["embed"][ids]:
            gates = row @ wide["lstm_Wx"] + state @ wide["lstm_Wh"] + wide["lstm_b"]
            forget, candidate, entry, output = np.split(gates, 4)
            cell = _sigmoid(forget) * cell + _sigmoid(entry) * np.tanh(candidate)
            state = _sigmoid(output) * np.tanh(cell)
        expected = state @ wide["affine_W"] + wide["affine_b"]
        got = model(torch.tensor([ids]))[0, -1].detach().numpy()
        np.testing.assert_allclose(got, expected, atol=1e-4)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (
                r"Oil rose to \$50.10, Reuters #39;s index says.  quot;Well-known quot; it is",
                "oil rose to $ N reuters 's index says <eos> well-known it is <eos>",
            ),
            ("Google Inc. and AT&amp;T Corp. can't sell.", "google inc. and at&t corp. ca n't sell <eos>"),
            ("The U.S. had 1,000 30-year bonds in 2004.", "the u.s. had N 30-year bonds in N <eos>"),
            ('Merck &lt;A HREF="http://x.y/Quote.aspx?a=b"&gt;MRK.N&lt;/A&gt; fell', "merck mrk.n fell <eos>"),
            ("Rules &lt;b&gt;...&lt;/b&gt; . Cut &lt;A HREF=", "rules <eos> cut <eos>"),
            ("", "<eos>"),
        ],
    )
    def test_news_text_is_spelled_like_treebank(self, text: str, words: str) -> None:
        known = {"inc.", "corp.", "u.s.", "at&t", "30-year", "n't"}
        assert language_model.treebank_words(text, known) == words.split()

    def test_business_news_are_read_only(self, tmp_path: Path) -> None:
        (tmp_path / "test.csv").write_text('"3","A","oil rose"\n"2","B","rose"\n"3","C","gold"\n', encoding="utf-8")
        text = language_model.business_news(tmp_path / "test.csv", ["<unk>", "<eos>", "oil", "rose"], limit=4)
        assert text.tolist() == [2, 3, 1, 0]

    def test_perplexity_of_uniform_model_is_vocabulary_size(self) -> None:
        class Even(torch.nn.Module):
            def forward(self, ids: torch.Tensor) -> torch.Tensor:
                return torch.zeros(*ids.shape, 50)

        assert language_model.perplexity(Even(), torch.zeros(1001, dtype=torch.int64)) == pytest.approx(50, rel=1e-5)


class TestSegmenter:
    def test_state_dict_is_loaded_into_model(self, tmp_path: Path) -> None:
        written = segmenter.Segmenter(characters=5, syllables=9)
        torch.save(written.state_dict(), tmp_path / "attacut-sc.pth")
        loaded = segmenter.load(tmp_path)
        assert not loaded.training
        ids = torch.randint(5, (2, 12))
        assert torch.equal(loaded(ids, ids), written.eval()(ids, ids))
        assert loaded(ids, ids).shape == (2, 12)

    def test_texts_have_whole_syllables(self, tmp_path: Path) -> None:
        (tmp_path / "characters.json").write_text(json.dumps({"<PAD>": 0, "a": 1, "b": 2}))
        (tmp_path / "syllables.json").write_text(json.dumps({"<PAD>": 0, "": 1, "ab": 2, "b": 3, "ax": 4}))
        characters, syllables = segmenter.random_syllables(tmp_path, rows=2, length=6)
        assert characters.shape == syllables.shape == (2, 6)
        assert set(syllables.flatten().tolist()) <= {2, 3}  # x is no character of its own
        for character, syllable in zip(characters.flatten().tolist(), syllables.flatten().tolist(), strict=True):
            assert character in {2: (1, 2), 3: (2,)}[syllable]


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))
