"""word2vec and GloVe files, compared with gensim, which writes and reads them."""

import gzip
import tracemalloc

import numpy as np
import pytest
from gensim.models import KeyedVectors
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edge_embed.errors import BadInputError
from edge_embed.importers import byte_stream, word2vec_text
from edge_embed.importers.reading_options import AS_IT_SHOWS, Reading
from edge_embed.importers.recognize import load_foreign

WORDS = ["the", "straße", "日本語", "naïve", "🙂", "x.y", "don't", "\u00a0", "5", "-1.5"]


def read(path, reading=AS_IT_SHOWS):
    """Return tokens and table of a file."""
    program = load_foreign(path, reading=reading)
    return list(program.vocabulary), program.module.weight("vectors.weight").numpy()


def refused(path, content, match):
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=match) as caught:
        load_foreign(path)
    assert str(path) in str(caught.value)


@pytest.fixture
def vectors():
    made = KeyedVectors(7)
    made.add_vectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 7)).astype(np.float32))
    return made


@pytest.fixture
def small_blocks(monkeypatch):
    for module in (byte_stream, word2vec_text):
        monkeypatch.setattr(module, "BLOCK", 1 << 14)


class TestAsGensimWritesThem:
    @pytest.mark.parametrize("name", ["v.txt", "v.txt.gz", "v.any"])
    @pytest.mark.parametrize(("binary", "header"), [(True, True), (False, True), (False, False)])
    def test_tokens_and_numbers_of_gensim_files_are_read(self, vectors, tmp_path, name, header, binary):
        vectors.save_word2vec_format(tmp_path / name, binary=binary, write_header=header)
        tokens, table = read(tmp_path / name)
        assert tokens == WORDS
        np.testing.assert_array_equal(table, vectors.vectors)

    @pytest.mark.parametrize("binary", [True, False])
    def test_equal_tokens_keep_first_row_as_in_gensim(self, tmp_path, caplog, binary):
        path, names = tmp_path / "v", ["a", "b", "a", "c", "b", "d"]
        rows = [np.float32([at, -at]) for at in range(6)]
        if binary:
            content = b"".join(f"{name} ".encode() + row.tobytes() for name, row in zip(names, rows, strict=True))
        else:
            content = b"".join(f"{name} {row[0]} {row[1]}\n".encode() for name, row in zip(names, rows, strict=True))
        path.write_bytes(b"6 2\n" + content)
        tokens, table = read(path)
        gensims = KeyedVectors.load_word2vec_format(path, binary=binary)
        assert tokens == list(gensims.key_to_index) == ["a", "b", "c", "d"]
        np.testing.assert_array_equal(table, gensims.vectors[:4])  # gensim does not fill the rows after these
        assert "2 rows left out, which repeat earlier tokens: 'a', 'b'" in caplog.text


class TestOtherWriters:
    def test_text_with_space_before_line_end_is_read(self, tmp_path):
        (tmp_path / "v.vec").write_bytes(b"2 3\nthe 0.1 -2e-3 3 \nof 4 .5 +6. \n")
        tokens, table = read(tmp_path / "v.vec")
        assert tokens == ["the", "of"]
        np.testing.assert_array_equal(table, np.float32([[0.1, -2e-3, 3], [4, 0.5, 6]]))

    def test_binary_with_newline_after_each_row_is_read(self, tmp_path):
        rows = np.random.default_rng(1).normal(size=(3, 4)).astype("<f4")
        names = [b"the", b"of", b"to"]
        records = (name + b" " + row.tobytes() + b"\n" for name, row in zip(names, rows, strict=True))
        (tmp_path / "v.bin").write_bytes(b"3 4\n" + b"".join(records))
        tokens, table = read(tmp_path / "v.bin")
        assert tokens == ["the", "of", "to"]
        np.testing.assert_array_equal(table, rows)

    @pytest.mark.parametrize("separator", [b" ", b"\t", b"  "])
    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n\n", b""])
    def test_separators_and_line_ends_are_read(self, tmp_path, separator, end):
        lines = [separator.join(fields) for fields in ([b"the", b"1", b"2"], [b"of", b"3", b"4"])]
        (tmp_path / "v").write_bytes(lines[0] + (end[:2].strip(b"\n") + b"\n") + lines[1] + end)
        tokens, table = read(tmp_path / "v")
        assert tokens == ["the", "of"]
        np.testing.assert_array_equal(table, [[1, 2], [3, 4]])

    def test_glove_tokens_with_spaces_are_read(self, tmp_path):
        (tmp_path / "g.txt").write_bytes(b"the 1 2\n. . . 3 4\nat name@domain.com 5 6\n")
        tokens, table = read(tmp_path / "g.txt")
        assert tokens == ["the", ". . .", "at name@domain.com"]
        np.testing.assert_array_equal(table, [[1, 2], [3, 4], [5, 6]])

    def test_glove_first_token_with_space_is_read(self, tmp_path):
        (tmp_path / "g.txt").write_bytes(b". . 3 4\nthe 1 2\nof 5 6\n")
        assert read(tmp_path / "g.txt")[0] == [". .", "the", "of"]


TOKENS = st.lists(
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters=" \t\n\r\x0b\x0c"), min_size=1, max_size=8),
    min_size=1,
    max_size=9,
    unique=True,
)
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw):
    tokens = draw(TOKENS)
    return tokens, draw(arrays(np.float32, (len(tokens), draw(st.integers(1, 5))), elements=NUMBERS))


class TestAnyTable:
    @given(tables(), st.booleans())
    def test_text_of_any_table_is_read_unchanged(self, tmp_path_factory, made, header):
        tokens, table = made
        path = tmp_path_factory.mktemp("v") / "v"
        start = [f"{table.shape[0]} {table.shape[1]}"] if header else []
        lines = [f"{token} {' '.join(map(repr, row.tolist()))}" for token, row in zip(tokens, table, strict=True)]
        # Ambiguous files are left out: a byte order mark, or a first row that could be a header.
        if not header and (tokens[0].startswith("\ufeff") or (tokens[0].isdigit() and table.shape[1] == 1)):
            return
        path.write_bytes("\n".join([*start, *lines]).encode())
        found, numbers = read(path, Reading(has_tokens=True))  # all tokens may be numbers
        assert found == tokens
        np.testing.assert_array_equal(numbers, table)

    @given(tables(), st.booleans())
    def test_binary_of_any_table_is_read_unchanged(self, tmp_path_factory, made, newline):
        tokens, table = made
        path = tmp_path_factory.mktemp("v") / "v"
        records = [
            token.encode() + b" " + row.tobytes() + b"\n" * newline for token, row in zip(tokens, table, strict=True)
        ]
        path.write_bytes(b"%d %d\n" % table.shape + b"".join(records))
        assert read(path)[0] == tokens
        np.testing.assert_array_equal(read(path)[1], table)


class TestRefused:
    @pytest.mark.parametrize(
        ("content", "match"),
        [
            (b"the 1 2\nof 3\nto 4 5\n", "line 2: got 1 numbers, expected 2"),
            (b"the 1 2\nof 3 4 5\nto 4 5\n", "line 2: got 3 numbers, expected 2"),
            (b"the 1 2\nof 3 x4\nto 4 5\n", "line 2: got b'x4', expected a number"),
            (b"the 1 2\nof 3 nan\nto 4 5\n", r"line 2 \(b'of'\): got NaN"),
            (b"the 1 2\nof 3 inf\nto 4 5\n", r"line 2 \(b'of'\): got NaN, an infinity"),
            (b"the 1 2\nof 3 1e39\nto 4 5\n", r"line 2 \(b'of'\): .* too large"),
            (b"the 1 2\n\nto 4 5\n", "line 2: is empty, expected a token and 2 numbers"),
            (b"\nto 4 5\nof 6 7", "line 1: is empty"),
            (b"\nto 4 5", "line 1: is empty"),
            (b"the 1 2\n 4 5\nto 4 5\n", "line 2: its token is empty"),
            (b"the 1 2\nf\xfcr 3 4\nto 4 5\n", r"line 2: the token b'f\\xfcr' is not UTF-8"),
            (b"3 2\nthe 1 2\nto 4 5\n", "line 1: declares 3 rows"),
            (b"1 2\nthe 1 2\nto 4 5\n", "line 1: declares 1 rows, the file has 2"),
            (b"2 3\nthe 1 2\nto 4 5\n", "line 2: got 2 numbers, expected 3|room for"),
            (b"2 1\nthe 1 2\nto 4 5\n", "line 2: got 2 numbers, expected 1"),
            (b"0 2\nthe 1 2\n", "got 0 rows of 2 numbers"),
            (b"2 0\nthe 1 2\n", "got 2 rows of 0 numbers"),
        ],
    )
    def test_damaged_text_is_refused_with_line(self, tmp_path, content, match):
        refused(tmp_path / "v.txt", content, match)
        refused(tmp_path / "v.txt.gz", gzip.compress(content), match)

    @pytest.mark.parametrize(
        ("rows", "match"),
        [
            (b"a \0\0\x80?b \0\0\x80", "got 11 bytes, expected at least 12"),
            (b"a \0\0\x80?bcd \0\0\x80", "row 2: the file ends inside it"),
            (b"a \0\0\x80?b\0\0\0\0\0\x80?", "row 2: has no token"),
            (b"a \0\0\x80?b \0\0\x80?c", "got more bytes after row 2, expected 2 rows"),
            (b"a \0\0\x80?b \0\0\xc0\x7f", r"row 2 \('b'\): got NaN"),
            (b"a \0\0\x80?\xfc \0\0\x80?", "row 2: the token .* is not UTF-8"),
            (b"a \0\0\x80? \0\0\x80?b", "row 2: its token is empty"),
            (b"\0" * 70_000 + b" \0\0\x80?b \0\0\x80?", "row 1: has no token of at most 65536 bytes"),
        ],
    )
    def test_damaged_binary_is_refused_with_row(self, tmp_path, rows, match):
        refused(tmp_path / "v.bin", b"2 1\n" + rows, match)

    def test_damaged_line_in_later_block_has_its_number(self, tmp_path, small_blocks):
        lines = [b"w%d 0.125 0.25" % at for at in range(4000)]
        lines[3990] += b"x"
        refused(tmp_path / "v.txt", b"\n".join(lines), "line 3991: got b'0.25x', expected a number")

    def test_empty_lines_across_blocks_are_refused_with_first_line(self, tmp_path, small_blocks):
        lines = [b"a 1", *[b""] * 5000, b"b 1"]
        refused(tmp_path / "v.txt", b"\n".join(lines), "line 2: is empty")

    def test_line_over_limit_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(word2vec_text, "_MAX_LINE_BYTES", 1000)
        refused(tmp_path / "v.txt", b"a 1 2\nb 1 " + b"2" * (5 << 20), "line 2: exceeds 1000 bytes")

    @pytest.mark.parametrize("rest", [b"a 1 2\n", b"a \0\0\x80?\0\0\x80?"])
    @pytest.mark.parametrize("header", [b"99999999999 2\n", b"1000000 1000000\n", b"2 99999999999\n"])
    def test_sizes_beyond_vectors_file_are_refused_within_20_mib(self, tmp_path, header, rest):
        tracemalloc.start()
        refused(tmp_path / "v", header + rest, "rows of")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 20 << 20

    def test_gzip_followed_by_hole_is_refused(self, tmp_path):
        path = tmp_path / "v.gz"
        path.write_bytes(gzip.compress(b"a 1.5 2\nb 3 4\n"))
        with path.open("r+b") as file:
            file.truncate(1 << 38)
        with pytest.raises(BadInputError, match="ends in zeros"):
            load_foreign(path)

    def test_gzip_padded_with_few_zeros_is_read(self, tmp_path):
        path = tmp_path / "v.gz"
        path.write_bytes(gzip.compress(b"a 1.5 2\nb 3 4\n") + bytes(10240))
        assert read(path)[0] == ["a", "b"]

    @pytest.mark.parametrize(
        ("header", "match"), [(b"9 7\n", "content exceeds"), (b"3000000 300\n", "content exceeds")]
    )
    def test_binary_rows_in_file_of_hole_are_refused(self, tmp_path, header, match):
        path = tmp_path / "v.bin"
        path.write_bytes(header)
        with path.open("r+b") as file:
            file.truncate(1 << 38)
        with pytest.raises(BadInputError, match=match):
            load_foreign(path)

    def test_damaged_gzip_is_refused(self, tmp_path):
        whole = gzip.compress(b"".join(b"w%d 0.125 0.25\n" % (at * 7919) for at in range(1000)))
        refused(tmp_path / "v.gz", whole[:-9], "damaged gzip file")
        refused(tmp_path / "v.gz", whole[:500] + b"\0\0\0\0" + whole[504:], "damaged gzip file")

    def test_gzip_over_100_times_its_size_is_refused(self, tmp_path):
        refused(
            tmp_path / "v.gz", gzip.compress(b"a 0 0\n" * 3_000_000), "content exceeds 100 times its compressed size"
        )


@pytest.mark.parametrize("errors", ["strict", "replace", "skip"])
@pytest.mark.parametrize("newline", [b"", b"\n"])
@pytest.mark.parametrize(
    ("tokens", "dtype"),
    [([b"san jose", b"a", b"b"], "<f4"), ([b"a", b"new york", b"b", b"c"], "<f4"), ([b"a", b"b", b"c", b"d"], "<f8")],
    ids=["first", "second", "float64"],
)
def test_binary_tokens_with_space_are_refused_for_each_encoding_option(tmp_path, tokens, dtype, newline, errors):
    numbers = np.array([[-1.1, 0.7, 0.3, -0.123456], [1.7, 2.9, -3.3, 4.1]] * 2, dtype)
    rows = [token + b" " + row.tobytes() + newline for token, row in zip(tokens, numbers, strict=False)]
    path = tmp_path / "v.bin"
    path.write_bytes(b"%d 4\n" % len(tokens) + b"".join(rows))
    with pytest.raises(BadInputError, match=r"row \d: begins inside the numbers of row \d: a token contains a space"):
        load_foreign(path, reading=Reading(encoding_errors=errors))


def test_text_table_is_read_without_copy(tmp_path, small_blocks):
    table = np.random.default_rng(0).normal(size=(10_000, 100)).astype(np.float32)  # 4 MB, in more than 100 blocks
    lines = (f"w{at} {' '.join(map('%.4f'.__mod__, row))}" for at, row in enumerate(table.tolist()))
    (tmp_path / "v.txt").write_text("\n".join(lines))
    tracemalloc.start()
    load_foreign(tmp_path / "v.txt")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.6 * table.nbytes  # with the tokens and the program
