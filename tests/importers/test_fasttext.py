"""fastText models, compared with the library fastText: the same bits for every word."""

import random
import struct

import fasttext
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.importers.recognize import load_foreign
from edge_embed.inspection.inspect import inspect_file

WORDS = ["running", "runner", "ran", "straße", "日本語", "naïve", "Ωμέγα", "🙂x", "a", "of", *map(str, range(40))]


def read(path):
    """Return tokens and table of a model."""
    program = load_foreign(path)
    return list(program.vocabulary), program.module.weight("vectors.weight").numpy()


def assert_as_fasttext(path, model):
    tokens, table = read(path)
    assert tokens == model.get_words(on_unicode_error="strict")
    np.testing.assert_array_equal(table, np.stack([model.get_word_vector(token) for token in tokens]))


def trained(train, *args, **options):
    """Train a model with 11 threads: each initialises a tenth of the matrix, and fewer would leave a part undefined."""
    return train(*args, dim=10, epoch=1, bucket=300, thread=11, verbose=0, **options)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    draw = random.Random(0)
    path = tmp_path_factory.mktemp("text") / "text.txt"
    lines = (f"__label__{at % 3} {' '.join(draw.choices(WORDS, k=8))}" for at in range(200))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


class TestTrained:
    @pytest.mark.parametrize("kind", ["skipgram", "cbow"])
    @pytest.mark.parametrize(("minn", "maxn"), [(3, 6), (1, 3), (0, 2), (0, 0)])
    def test_words_have_vectors_of_fasttext(self, text, tmp_path, kind, minn, maxn):
        model = trained(fasttext.train_unsupervised, str(text), model=kind, minCount=1, minn=minn, maxn=maxn)
        model.save_model(str(tmp_path / "m.bin"))
        assert_as_fasttext(tmp_path / "m.bin", model)

    @pytest.mark.parametrize("options", [{}, {"wordNgrams": 2}, {"minn": 2, "maxn": 4}])
    def test_classifier_words_have_vectors_of_fasttext_without_labels(self, text, tmp_path, options):
        model = trained(fasttext.train_supervised, str(text), **options)
        model.save_model(str(tmp_path / "m.bin"))
        assert_as_fasttext(tmp_path / "m.bin", model)
        assert not any(token.startswith("__label__") for token in read(tmp_path / "m.bin")[0])

    @pytest.mark.parametrize("loss", ["hs", "ns", "softmax", "ova"])
    def test_classifier_parts_left_out_are_listed_with_bytes(self, text, tmp_path, loss):
        path = tmp_path / "m"
        model = trained(fasttext.train_supervised, str(text), loss=loss, wordNgrams=2, minn=2, maxn=3)
        model.save_model(str(path))
        parts = {part.what: part for part in inspect_file(path).source.left_out}
        matrix = 4 * np.prod(model.get_output_matrix().shape)
        assert matrix <= parts["output layer"].nbytes < matrix + 64  # with its sizes
        assert f"3 labels, loss {loss}:" in parts["output layer"].reason
        assert parts["labels"].nbytes == 3 * (len("__label__0") + 1 + 9)
        assert ("hierarchy" in parts) == (loss == "hs")
        assert "2 to 3 characters and of 2 to 2 words" in parts["n-gram buckets"].reason
        assert parts["n-gram buckets"].nbytes == 300 * 10 * 4

    def test_vec_file_has_vectors_of_fasttext(self, text, tmp_path):
        model = trained(fasttext.train_unsupervised, str(text), minCount=1)
        words = model.get_words()
        rows = [f"{word} {' '.join(f'{number:.5g}' for number in model.get_word_vector(word))} " for word in words]
        (tmp_path / "m.vec").write_text("\n".join([f"{len(words)} 10", *rows, ""]), encoding="utf-8")
        tokens, table = read(tmp_path / "m.vec")
        assert tokens == words
        np.testing.assert_allclose(table, [model.get_word_vector(word) for word in words], rtol=1e-4)


def model_bytes(words, minn=2, maxn=4, buckets=7, kind=2, version=12, dim=3, labels=()):
    """Return a model in the format of fastText, with random rows."""
    rows = np.random.default_rng(0).normal(size=(len(words) + buckets, dim)).astype("<f4")
    softmax = 3  # fastText builds no structure for this loss
    options = (dim, 5, 5, 1, 5, 1, softmax, kind, buckets, minn, maxn, 100, 1e-4)
    entries = [(word, 0) for word in words] + [(label, 1) for label in labels]
    return b"".join(
        [
            struct.pack("<2i12id", 793712314, version, *options),
            struct.pack("<3i2q", len(entries), len(words), len(labels), 100, -1),
            *(name.encode() + b"\0" + struct.pack("<qb", 3, entry) for name, entry in entries),
            struct.pack("<b2q", 0, *rows.shape),
            rows.tobytes(),
            struct.pack("<b2q", 0, len(labels) or len(words), dim),
            np.zeros((len(labels) or len(words), dim), "<f4").tobytes(),
        ]
    )


class TestAnyDictionary:
    @settings(max_examples=60)
    @given(
        words=st.lists(
            st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=12),
            min_size=1,
            max_size=8,
            unique=True,
        ),
        minn=st.integers(0, 5),
        maxn=st.integers(0, 7),
        buckets=st.integers(1, 50),
        version=st.sampled_from([11, 12]),
        kind=st.sampled_from([1, 2, 3]),
    )
    @example(words=["</s>", "of"], minn=1, maxn=4, buckets=3, version=12, kind=2)
    @example(words=["of", "of the"], minn=1, maxn=1, buckets=9, version=11, kind=3)
    def test_words_have_vectors_of_fasttext(self, tmp_path_factory, words, minn, maxn, buckets, version, kind):
        path = tmp_path_factory.mktemp("m") / "m.bin"
        labels = ["__label__x"] if kind == 3 else []
        path.write_bytes(model_bytes(words, minn, maxn, buckets, kind, version, labels=labels))
        assert_as_fasttext(path, fasttext.load_model(str(path)))

    def test_words_of_several_batches_have_vectors_of_fasttext(self, tmp_path):
        path, words = tmp_path / "m.bin", [f"wörd{number}" for number in range(20_000)]
        path.write_bytes(model_bytes(words, buckets=1000))
        assert_as_fasttext(path, fasttext.load_model(str(path)))


class TestRefused:
    @pytest.mark.parametrize(
        ("change", "match"),
        [
            (lambda m: m[:4] + struct.pack("<i", 13) + m[8:], "version 13, expected 12"),
            (lambda m: m[:8] + struct.pack("<i", 4) + m[12:], "a matrix of 9 rows of 3, expected 2 .* rows of 4"),
            (lambda m: m[:64], "ends too early"),
            (lambda m: m[:110], "entries do not fit"),
            (lambda m: m[:-40], "does not fit into the file"),
            (lambda m: m[:64] + struct.pack("<3i", 2**31 - 1, 2**31 - 1, 0) + m[76:], "entries do not fit"),
            (lambda m: m[:64] + struct.pack("<3i", 2, 3, -1) + m[76:], "got 2 entries, expected the sum of 3 words"),
            (lambda m: m[:40] + struct.pack("<3i", 2**31 - 1, 3, 6) + m[52:], "expected 2 . 2147483647 rows"),
            (lambda m: m[:48] + struct.pack("<i", 2**31 - 1) + m[52:], "n-grams of 2 to 2147483647 characters"),
            (lambda m: m[:44] + struct.pack("<i", -1) + m[48:], "n-grams of -1 to 4 characters"),
            (lambda m: m.replace(b"of\0", b"\xff\xff\0"), "word 1: the token .* is not UTF-8"),
            (lambda m: m.replace(b"of\0", b"ofx"), "entry"),
            (lambda m: m[:84] + struct.pack("<q", 0) + m[92:], "pruned, expected for quantised models only"),
            (lambda m: m[:84] + struct.pack("<q", 2**40) + m[92:], "a list of 1099511627776 buckets does not fit"),
            (lambda m: m[:8] + struct.pack("<i", 0) + m[12:], "rows of 0 numbers, expected 1 to"),
        ],
    )
    def test_damaged_model_is_refused_with_reason(self, tmp_path, change, match):
        path, whole = tmp_path / "m.bin", model_bytes(["of", "the"], dim=3)
        end = len(whole) - 17 - 2 * 3 * 4  # without the output layer, which is not read
        path.write_bytes(change(whole[:end]))
        with pytest.raises(BadInputError, match=match):
            load_foreign(path)

    def test_numbers_that_are_not_finite_are_refused(self, tmp_path):
        path, whole = tmp_path / "m.bin", model_bytes(["of", "the"], maxn=0, dim=1)
        begin = whole.index(struct.pack("<2q", 9, 1)) + 16
        path.write_bytes(whole[: begin + 4] + struct.pack("<f", np.nan) + whole[begin + 8 :])
        with pytest.raises(BadInputError, match=r"word 2 \('the'\): got NaN"):
            load_foreign(path)
