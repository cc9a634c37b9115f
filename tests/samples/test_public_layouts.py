"""Whole public sets in place of those of the samples: excerpts made up in their layouts, from files to a loss."""

import gzip
import json
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from ag_news import data as ag_news
from amazon_video import data as amazon_video
from click_through import criteo
from multi30k import data as multi30k
from options import Options
from sst2 import trees
from training import Task, evaluate


def task_of(sample: str, folder: Path) -> Task[Any]:
    return import_module(f"{sample}.claims").make_task(Options(folder, False, 0, folder))()


def check_trains(task: Task[Any]) -> None:
    """Check that a model of the task has a loss with gradients, and scores of both parts."""
    torch.manual_seed(0)
    model = task.model(lambda rows: torch.nn.Embedding(rows, 64))
    task.loss(model, next(iter(task.batches()))).backward()
    assert any(parameter.grad is not None and parameter.grad.any() for parameter in model.table.parameters())
    for part in ("validation", "test"):
        assert math.isfinite(evaluate(task, model, part))


class TestReviews:
    @pytest.fixture
    def imdb(self, tmp_path: Path) -> Path:
        texts = {"train/neg/0_2.txt": "Bad film,<br /><br />bad", "train/pos/1_9.txt": "good FILM"}
        for name, text in (texts | {"test/neg/0_1.txt": "bad", "test/pos/0_10.txt": "good film of 2004"}).items():
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path

    def test_reviews_are_texts_in_two_classes(self, imdb: Path) -> None:
        with ag_news.news_folder(imdb) as folder:
            vocabulary, training, testing = ag_news.read(folder)
        assert vocabulary == {"<pad>": 0, "<unk>": 1, "bad": 2, "film": 3}
        assert training.classes.tolist() == [0, 1]
        assert training.ids[:, :2].tolist() == [[2, 3], [1, 3]]
        assert testing.ids[1].tolist()[:2] == [1, 3]
        assert testing.classes.tolist() == [0, 1]

    def test_files_beside_reviews_are_left_out(self, imdb: Path) -> None:
        (imdb / "train" / "neg" / ".DS_Store").write_bytes(b"\xff\xfe")
        (imdb / "train" / "neg" / "more").mkdir()
        assert len(ag_news.read(imdb)[1]) == 2

    def test_missing_folder_is_named(self, imdb: Path) -> None:
        (imdb / "test" / "neg" / "0_1.txt").unlink()
        (imdb / "test" / "neg").rmdir()
        named = pytest.raises(click.ClickException, match="neg is missing: it belongs to the other files of")
        with named, ag_news.news_folder(imdb) as folder:
            ag_news.read(folder)


def test_words_that_are_read_cover_19_of_20_texts_of_a_public_set(tmp_path: Path) -> None:
    rows = [f"1,{'oil ' * length}" for length in (*range(1, 40), 500)]
    (tmp_path / "train.csv").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "test.csv").write_text("1,oil\n", encoding="utf-8")
    assert ag_news.read(tmp_path)[1].ids.shape == (40, 38)
    (tmp_path / "train.csv").write_text("\n".join(20 * [rows[-1]]), encoding="utf-8")
    assert ag_news.read(tmp_path)[1].ids.shape == (20, 400)


@pytest.mark.parametrize(
    ("train", "test", "named"),
    [
        (b'1,"oil\n2,gas\n', b"1,oil\n", "line 2: got unexpected end of data, expected texts in quotes that end"),
        (b"", b"1,oil\n", "got no texts for training"),
        (b"1,oil\n", b"", "got no texts for test"),
        (b"1,oil\n", b"3,oil\n", "got class 3 in the test, expected at most 1"),
        ("1,öl\n".encode("latin-1"), b"1,oil\n", r"train\.csv: got 'utf-8' codec .*, expected a text in UTF-8"),
    ],
)
def test_bad_texts_are_named(train: bytes, test: bytes, named: str, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_bytes(train)
    (tmp_path / "test.csv").write_bytes(test)
    with pytest.raises(click.ClickException, match=named):
        ag_news.read(tmp_path)


def test_texts_too_few_to_keep_some_are_refused(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("1,oil\n2,gas\n", encoding="utf-8")
    (tmp_path / "test.csv").write_text("1,oil\n", encoding="utf-8")
    with pytest.raises(click.ClickException, match="got 2 texts for training, expected more than the 2,000"):
        task_of("ag_news", tmp_path)


@pytest.mark.parametrize("sample", ["ag_news", "amazon_video", "click_through", "multi30k", "sst2"])
def test_folder_without_a_set_names_what_it_may_hold(sample: str, tmp_path: Path) -> None:
    (tmp_path / "ml-1m").mkdir()
    write(tmp_path / "ml-1m" / "ratings.dat", LAYOUTS["ratings.dat"])
    with pytest.raises(click.ClickException, match=r"\.tar\.xz is missing: --data expects .*, or a set with \S+"):
        task_of(sample, tmp_path)


class TestTrees:
    TREE = "(3 (2 A) (4 (3 Good) (2 film)))"

    @pytest.fixture
    def sst5(self, tmp_path: Path) -> Path:
        (tmp_path / "train.txt").write_text(f"{self.TREE}\n(0 (1 bad) (2 film))\n{self.TREE}\n", encoding="utf-8")
        (tmp_path / "dev.txt").write_text("(1 (2 a) (1 bad))\n", encoding="utf-8")
        (tmp_path / "test.txt").write_text("(4 (3 good) (2 -LRB-))\n\n", encoding="utf-8")
        return tmp_path

    @pytest.mark.parametrize("file", trees.PUBLIC)
    def test_missing_and_empty_files_are_named(self, file: str, sst5: Path) -> None:
        (sst5 / file).write_text("\n", encoding="utf-8")
        with pytest.raises(click.ClickException, match=rf"{file}: got no (phrases|sentences), expected some"):
            task_of("sst2", sst5)
        (sst5 / file).unlink()
        if file != trees.PUBLIC[0]:
            with pytest.raises(click.ClickException, match=f"{file} is missing"):
                task_of("sst2", sst5)

    def test_phrases_are_for_training_and_sentences_for_test(self, sst5: Path) -> None:
        expected = [(2, "a"), (3, "good"), (2, "film"), (4, "good film"), (3, "a good film"), (1, "bad")]
        found = [(label, " ".join(words)) for label, words in trees.phrases(sst5 / "train.txt")]
        assert found == [*expected, (0, "bad film")]
        assert trees.sentences(sst5 / "test.txt") == [(4, ("good", "("))]

    def test_task_has_five_classes_and_keeps_dev_for_validation(self, sst5: Path) -> None:
        task: Any = task_of("sst2", sst5)
        assert len(task.training) == 7
        assert (task.validation.classes.tolist(), task.test.classes.tolist()) == ([1], [4])
        model = task.model(lambda rows: torch.nn.Embedding(rows, 64))
        assert model(task.example()).shape == (1, 5)
        task.loss(model, next(task.batches())).backward()

    @pytest.mark.parametrize(
        "line",
        [
            *("good film", "(5 good)", "( good)", "(3 )", "(3 good", "(3 good))", "(01 good)", "(3 good) film", "()"),
            *("(3 good film)", "(3 good) (2 film)", "(3 (2 good))", "(3 good (2 film) (2 film))"),
        ],
    )
    def test_line_that_is_no_tree_is_named(self, line: str, tmp_path: Path) -> None:
        (tmp_path / "train.txt").write_text(f"{self.TREE}\n{line}\n", encoding="utf-8")
        with pytest.raises(click.ClickException, match=r"train\.txt, line 2: got .*, expected a tree such as"):
            trees.phrases(tmp_path / "train.txt")


ACTIONS = [("7", "50", 30), ("12", "6", 9), ("7", "6", 10), ("7", "1193", 20), ("12", "1193", 8), ("12", "50", 10)]
LAYOUTS = {
    "ratings.dat": "\n".join(f"{user}::{item}::4::{time}" for user, item, time in ACTIONS),
    "ratings.csv": "userId,movieId,rating,timestamp\n"
    + "\n".join(f"{user},{item},3.5,{time}" for user, item, time in ACTIONS),
    "reviews_Video_Games_5.json.gz": "\n".join(
        json.dumps({"reviewerID": user, "asin": item, "overall": 5.0, "unixReviewTime": time})
        for user, item, time in ACTIONS
    ),
    "Video_Games.jsonl": "\n".join(
        json.dumps({"user_id": user, "parent_asin": item, "timestamp": time}) for user, item, time in ACTIONS
    ),
}


def write(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.mark.parametrize("name", LAYOUTS)
def test_actions_are_histories_in_time_order(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, LAYOUTS[name])
    with amazon_video.video_folder(tmp_path) as folder:
        histories = amazon_video.read(folder, least=1)
    six, fifty, long = 1, 2, 3  # equally frequent: by the length of their names, then by these
    assert histories.num_items == 4
    assert histories.items[:, -3:].tolist() == [[long, six, fifty], [six, long, fifty]]  # users 12 and 7


@pytest.mark.parametrize("sample", ["amazon_video", "click_through"])
def test_claims_train_on_actions(sample: str, tmp_path: Path) -> None:
    many = (f"{user}::{user * place % 13}::4::{place}" for user in range(1, 9) for place in range(1, 6))
    write(tmp_path / "ratings.dat", "\n".join(many))
    check_trains(task_of(sample, tmp_path))


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("ratings.dat", "1::2::3::4\n1::2\n", "line 2: .*expected user::item::rating::time"),
        ("ratings.csv", "userId,movieId,rating,timestamp\n1,2,3,late\n", "line 2: .*late.*expected userId,movieId"),
        ("ratings.csv", "movieId,userId,rating,timestamp\n1,2,3,4\n", "line 1: .*movieId.*expected userId,movieId"),
        ("a.jsonl", '{"user_id": "1"}\n', "line 1: .*user_id.*expected a JSON object with reviewerID"),
        ("a.jsonl", '{"user": "1"}\n', "line 1: .*expected a JSON object with reviewerID"),
        ("a.jsonl", '{"reviewerID": null, "asin": "a", "unixReviewTime": 1}\n', "line 1: .*null.*expected a JSON"),
        ("a.jsonl", "[1]\n", "line 1: .*expected a JSON object"),
        ("a.jsonl", "{\n", "line 1: .*expected a JSON object"),
        ("ratings.dat", "1::2::3::4\n1::3::3::5\n", "no user has 3 items, expected"),
    ],
)
def test_bad_actions_are_named(name: str, text: str, named: str, tmp_path: Path) -> None:
    write(tmp_path / name, text)
    with pytest.raises(click.ClickException, match=named):
        amazon_video.read(tmp_path, least=1)


def test_file_that_is_not_compressed_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(b"{}")
    with pytest.raises(click.ClickException, match=r"a\.json\.gz: cannot be read after line 0: Not a gzipped file"):
        amazon_video.read(tmp_path, least=1)


def test_damaged_or_otherwise_encoded_files_are_named(tmp_path: Path) -> None:
    whole = gzip.compress(LAYOUTS["Video_Games.jsonl"].encode())
    (tmp_path / "a.json.gz").write_bytes(whole[:20] + bytes(10) + whole[30:])
    with pytest.raises(click.ClickException, match=r"a\.json\.gz: cannot be read after line"):
        amazon_video.read(tmp_path, least=1)
    (tmp_path / "ratings.dat").write_bytes("1::\xfc::3::4".encode("latin-1"))
    with pytest.raises(click.ClickException, match=r"ratings\.dat: cannot be read after line 0: 'utf-8' codec"):
        amazon_video.read(tmp_path, least=1)


def test_actions_of_two_layouts_count_once(tmp_path: Path) -> None:
    for name in ("ratings.dat", "ratings.csv"):
        write(tmp_path / name, LAYOUTS[name])
    write(tmp_path / "ratings.dat", "\ufeff" + LAYOUTS["ratings.dat"])  # a byte order mark belongs to no user
    histories = amazon_video.read(tmp_path, least=1)
    assert (histories.items != 0).sum().item() == len(ACTIONS)
    assert len(histories.items) == 2


def test_message_says_which_items_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "ratings.dat", LAYOUTS["ratings.dat"])
    with pytest.raises(click.ClickException, match="no user has 3 items that occur 20 times or more"):
        amazon_video.read(tmp_path, least=20)


class TestTranslation:
    PAIRS = (("a man runs", "ein mann rennt"), ("a man sits", "ein mann sitzt"), ("a man", "ein mann"))

    @pytest.fixture(params=[("valid", "test"), ("tst2012", "tst2013"), ("newstest2013", "newstest2014")])
    def plain(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        for name in ("train", *request.param):
            for at, language in enumerate(("en", "de")):
                text = "".join(f"{pair[at]}\n" for pair in self.PAIRS) + " word" * (31 * (name == "train")) + "\n"
                (tmp_path / f"{name}.{language}").write_text(text, encoding="utf-8")
        return tmp_path

    @pytest.fixture
    def marked(self, tmp_path: Path) -> Path:
        for at, language in enumerate(("de", "en")):
            lines = "\n".join(f" {pair[1 - at]}, &quot;R&amp;D&quot;! " for pair in self.PAIRS)
            train = f"<url>http</url>\n<title>t</title>\n{lines}\n"
            (tmp_path / f"train.tags.de-en.{language}").write_text(train, encoding="utf-8")
            segments = "\n".join(f'<seg id="{n}"> {pair[1 - at]} </seg>' for n, pair in enumerate(self.PAIRS))
            for part in ("dev2010", "tst2010"):
                (tmp_path / f"IWSLT14.TED.{part}.de-en.{language}.xml").write_text(segments, encoding="utf-8")
        return tmp_path

    def test_pairs_of_words_are_read(self, plain: Path) -> None:
        with multi30k.text_folder(plain) as folder:
            corpus = multi30k.read(folder)
        assert list(corpus.source_vocabulary) == ["<pad>", "<unk>", "a", "man"]  # three times or more
        assert list(corpus.target_vocabulary)[2:] == ["</s>", "<s>", "ein", "mann"]
        assert len(corpus.training) == 3  # without the long pair, and in the other parts without the empty one
        assert corpus.references == [german for _, german in self.PAIRS]
        check_trains(task_of("multi30k", plain))

    def test_marked_texts_are_split_into_words(self, marked: Path) -> None:
        with multi30k.text_folder(marked) as folder:
            corpus = multi30k.read(folder)
        assert set(corpus.source_vocabulary) - {"<pad>", "<unk>"} == {"ein", "mann", ",", '"', "r", "&", "d", "!"}
        assert corpus.references == [english for english, _ in self.PAIRS]
        assert len(corpus.training) == len(corpus.validation) == len(corpus.test) == 3

    def test_sentences_end_at_line_ends_only(self, plain: Path) -> None:
        for at, language in enumerate(("en", "de")):
            lines = [pair[at] for pair in self.PAIRS]
            lines[at] += " \u2028 \x85 \x0c \r word"  # in another line of each language
            (plain / f"train.{language}").write_bytes(("\r\n".join(lines) + "\r\n").encode())
        training = multi30k.read(plain).training
        assert (training.source != 0).sum(1).tolist() == [4, 3, 2]
        assert (training.target != 0).sum(1).tolist() == [3 + 2, 4 + 2, 2 + 2]  # with both marks

    def test_languages_beside_english_are_counted(self, plain: Path) -> None:
        (plain / "train.cs").write_text("a\n", encoding="utf-8")
        with pytest.raises(click.ClickException, match=r"got train\.cs and train\.de, expected one language beside"):
            multi30k.read(plain)

    def test_part_without_pairs_is_named(self, plain: Path) -> None:
        for path in (path for pattern in ("test.*", "tst2013.*", "newstest2014.*") for path in plain.glob(pattern)):
            path.write_text("", encoding="utf-8")
        with pytest.raises(click.ClickException, match="got no pairs of at most 30 words for test, expected some"):
            multi30k.read(plain)

    def test_name_without_direction_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "train.tags.de").write_text("a\n", encoding="utf-8")
        with pytest.raises(click.ClickException, match=r"train\.tags\.de: got this name, expected train\.tags\.de-en"):
            multi30k.read(tmp_path)

    def test_missing_part_is_named(self, plain: Path) -> None:
        for path in plain.glob("*.de"):
            if not path.name.startswith("train"):
                path.unlink()
        with pytest.raises(click.ClickException, match=r"got no files for validation, expected valid\.en with another"):
            multi30k.read(plain)

    def test_missing_part_of_marked_texts_is_named(self, marked: Path) -> None:
        (marked / "IWSLT14.TED.tst2010.de-en.en.xml").unlink()
        with pytest.raises(click.ClickException, match=r"got no files for test, expected IWSLT\*\.tst2014\.de-en"):
            multi30k.read(marked)

    def test_unequal_numbers_of_sentences_are_named(self, plain: Path) -> None:
        (plain / "train.de").write_text("ein\n", encoding="utf-8")
        with pytest.raises(click.ClickException, match=r"got 4 in .*train\.en and 1 in .*train\.de, expected as many"):
            multi30k.read(plain)


def test_archive_comes_before_advertisements(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("", encoding="ascii")
    (tmp_path / "amazon-video.tar.xz").write_bytes(b"")
    with pytest.raises(click.ClickException, match="cannot be unpacked"):
        task_of("click_through", tmp_path)


class TestCriteo:
    @staticmethod
    def line(at: int, **fields: str) -> str:
        categories = [f"{at % 2:08x}", "", *(f"{(at * field) % 50:x}" for field in range(24))]
        return "\t".join(
            [fields.get("taken", str(at % 2)), fields.get("count", "-1"), "", "20", *10 * ["3"], *categories]
        )

    @pytest.fixture
    def ads(self, tmp_path: Path) -> Path:
        (tmp_path / "train.txt").write_text("".join(f"{self.line(at)}\n" for at in range(100)), encoding="ascii")
        return tmp_path

    def test_frequent_categories_of_each_field_have_rows(self, ads: Path) -> None:
        clicks = criteo.read(ads / "train.txt")
        first, second, third = clicks.ids[:, :3].T.tolist()
        assert len(set(first)) == 2
        assert len(set(second)) == len(set(third)) == 1  # an empty category is one too, and 0 of the third field
        assert not {*first} & {*second}
        assert (clicks.ids == 1).any()  # rare ones
        assert clicks.num_rows == int(clicks.ids.max()) + 1
        torch.testing.assert_close(clicks.counts[0, :4], torch.tensor([0.0, 0.0, 21.0, 4.0]).clamp(min=1).log())
        assert clicks.taken.tolist() == 50 * [0.0, 1.0]
        assert sum(each[0].nbytes for each in (clicks.ids, clicks.counts, clicks.taken)) == 160  # as its README says

    def test_last_lines_are_for_test(self, ads: Path) -> None:
        task = criteo.AdTask(criteo.read(ads / "train.txt"))
        assert sum(len(batch[0]) for batch in task.batches()) == 80

        class First(torch.nn.Module):
            def forward(self, ids: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
                seen.append(len(ids))
                return (ids[:, 0] == ids[1, 0]).float()  # the category that goes with a click

        for part in ("validation", "test"):
            seen = list[int]()
            assert task.score(First(), part) == 1
            assert seen == [10]

    def test_claims_train_on_them(self, ads: Path) -> None:
        check_trains(task_of("click_through", ads))

    @pytest.mark.parametrize("fields", [{"taken": "2"}, {"count": "1.5"}, {"count": "1\t1"}])
    def test_line_of_another_form_is_named(self, fields: dict[str, str], ads: Path) -> None:
        with (ads / "train.txt").open("a") as file:
            file.write(self.line(0, **fields))
        with pytest.raises(click.ClickException, match=r"train\.txt, line 101: got .*, expected 0 or 1, 13 integers"):
            criteo.read(ads / "train.txt")

    def test_lines_too_few_to_hold_out_are_refused(self, ads: Path) -> None:
        with pytest.raises(click.ClickException, match="got 9 lines, expected at least 10"):
            criteo.read(ads / "train.txt", most=9)


@pytest.mark.parametrize("name", ["ratings.dat", "train.en", "train.csv"])
def test_archive_of_the_sample_comes_first(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("1", encoding="ascii")
    for sample in ("amazon-video", "multi30k", "agnews20k"):
        (tmp_path / f"{sample}.tar.xz").write_bytes(b"")
    folders = (amazon_video.video_folder, multi30k.text_folder, ag_news.news_folder)
    for open_folder in folders:
        with pytest.raises(click.ClickException, match="cannot be unpacked"), open_folder(tmp_path):
            pass
