"""Matrices without tokens in text, .npy and .npz; tokens from a separate file; broken and equal tokens."""

import csv
import json
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

from edge_embed import cli
from edge_embed.errors import BadInputError
from edge_embed.importers.reading_options import Reading
from edge_embed.importers.recognize import load_foreign

TABLE = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)


def read(path, **reading):
    """Return tokens, table and facts of a file."""
    program = load_foreign(path, reading=Reading(**reading))
    tokens = None if program.vocabulary is None else list(program.vocabulary)
    weights = {name: tensor.numpy() for name, tensor in program.module.named_buffers()}
    return tokens, next(iter(weights.values())), program.facts


def written(path, lines):
    path.write_bytes(lines.encode() if isinstance(lines, str) else lines)
    return path


class TestText:
    @pytest.mark.parametrize("delimiter", [" ", "\t", ",", ";"])
    @pytest.mark.parametrize("form", ["%.18e", "% .3f", "%g"])
    def test_savetxt_file_is_table_without_tokens_with_remark(self, tmp_path, delimiter, form):
        np.savetxt(tmp_path / "v.txt", TABLE, fmt=form, delimiter=delimiter)
        tokens, table, facts = read(tmp_path / "v.txt")
        assert tokens is None
        np.testing.assert_array_equal(
            table, np.loadtxt(tmp_path / "v.txt", np.float32, delimiter=delimiter.strip() or None)
        )
        assert any("a matrix without tokens: each row has 6 numbers" in remark for remark in facts.remarks)

    def test_header_lines_before_rows_are_skipped(self, tmp_path):
        np.savetxt(tmp_path / "c.txt", TABLE, header="made by me\nof 40 rows")
        np.testing.assert_array_equal(read(tmp_path / "c.txt")[1], TABLE)
        np.savetxt(tmp_path / "n.csv", TABLE, delimiter=",", header="a,b,c,d,e,f", comments="")
        np.testing.assert_array_equal(read(tmp_path / "n.csv")[1], TABLE)
        assert "line 1: column names, not a row" in read(tmp_path / "n.csv")[2].remarks

    @pytest.mark.parametrize(("separator", "first"), [(",", ""), ("\t", ""), (",", "index"), (";", None)])
    def test_numbered_column_names_are_not_row(self, tmp_path, separator, first):
        names = separator.join([*([] if first is None else [first]), *map(str, range(6))])
        index = [[] if first is None else [f"w{row}"] for row in range(40)]
        rows = [separator.join([*index[row], *map(repr, TABLE[row].tolist())]) for row in range(40)]
        tokens, table, _ = read(written(tmp_path / "v", "\n".join([names, *rows])))
        assert tokens == (None if first is None else [f"w{row}" for row in range(40)])
        np.testing.assert_array_equal(table, TABLE)

    @pytest.mark.parametrize("header", ["", ",0,1\n", "word,x,y\n"])
    def test_csv_tokens_in_quotes_are_unquoted(self, tmp_path, header):
        path = written(tmp_path / "v.csv", header + '"a,b",0.5,1\r\n"say ""so""",1.5,2\r\n<unk>,2.5,3\r\n')
        tokens, table, _ = read(path)
        assert tokens == ["a,b", 'say "so"', "<unk>"]
        np.testing.assert_array_equal(table, np.float32([[0.5, 1], [1.5, 2], [2.5, 3]]))

    @pytest.mark.parametrize("separator", [",", ";"])
    def test_csv_tokens_with_separators_in_quotes_are_read(self, tmp_path, separator):
        tokens = [f"new{separator} york {row}" for row in range(40)]
        lines = [
            ["word", *(f"d{column}" for column in range(6))],
            *([token, *row] for token, row in zip(tokens, TABLE, strict=True)),
        ]
        with (tmp_path / "v.csv").open("w", newline="") as file:
            csv.writer(file, delimiter=separator, quoting=csv.QUOTE_NONNUMERIC).writerows(lines)
        found, table, _ = read(tmp_path / "v.csv")
        assert found == tokens
        np.testing.assert_array_equal(table, TABLE)

    @pytest.mark.parametrize("line", ["{row}", "token{at} {row}"])
    def test_lines_that_end_in_carriage_returns_alone_are_refused(self, tmp_path, line):
        rows = [line.format(at=at, row=" ".join(map(repr, row.tolist()))) for at, row in enumerate(TABLE)]
        with pytest.raises(BadInputError, match="end in carriage returns alone"):
            read(written(tmp_path / "v.txt", "\r".join(rows) + "\r"))
        np.testing.assert_array_equal(read(written(tmp_path / "w.txt", "\r\n".join(rows) + "\r\n"))[1], TABLE)

    def test_integers_before_rows_need_option(self, tmp_path):
        path = written(tmp_path / "v.txt", "7 0.5 1.5\n9 2.5 3.5\n8 4.5 5.5\n")
        with pytest.raises(BadInputError, match="give --tokens if it is a token, --no-tokens if it is a number"):
            read(path)
        assert read(path, has_tokens=True)[0] == ["7", "9", "8"]
        assert read(path, has_tokens=False)[1].shape == (3, 3)

    def test_first_line_decides_between_tokens_and_numbers(self, tmp_path):
        tokens, table, _ = read(written(tmp_path / "t", "2 2\n7 0.5 1.5\n9 2.5 3.5\n"))
        assert (tokens, table.shape) == (["7", "9"], (2, 2))
        tokens, table, _ = read(written(tmp_path / "m", "2 3\n7 0.5 1.5\n9 2.5 3.5\n"))
        assert (tokens, table.shape) == (None, (2, 3))

    def test_word_after_many_integers_makes_column_tokens(self, tmp_path):
        lines = [f"{row}.5 0.25 0.125" for row in range(5000)] + ["word 0.25 0.125"]
        tokens, table, _ = read(written(tmp_path / "v.txt", "\n".join(lines)))
        assert (len(tokens), tokens[-1], table.shape) == (5001, "word", (5001, 2))

    def test_tokens_with_numbers_at_end_are_read(self, tmp_path):
        tokens, table, _ = read(written(tmp_path / "g", "the 0.1 0.2\nMay 5 0.3 0.4\nat 10 30 0.5 0.6\n"))
        assert tokens == ["the", "May 5", "at 10 30"]
        assert table[1].tolist() == np.float32([0.3, 0.4]).tolist()
        with pytest.raises(BadInputError, match="line 2: got 3 numbers, expected 2"):
            read(written(tmp_path / "g", "the 0.1 0.2\nof 0.5 0.3 0.4\nto 0.5 0.6\n"))

    def test_byte_order_mark_is_not_part_of_first_token(self, tmp_path):
        assert read(written(tmp_path / "v", b"\xef\xbb\xbfthe 1 2\r\nto 4 5\r\n"))[0] == ["the", "to"]
        assert read(written(tmp_path / "w", b"\xef\xbb\xbf2 2\nthe 1 2\nto 4 5\n"))[0] == ["the", "to"]


class TestBrokenTokens:
    LINES = b"the 0.5 1\nf\xfcr 2 3\nto 4 5\n"
    BINARY = b"3 1\nthe \0\0\x80?f\xfcr \0\0\x00@to \0\0\x80@"

    @pytest.mark.parametrize("content", [LINES, BINARY])
    def test_broken_token_is_replaced_or_skipped_by_option(self, tmp_path, content):
        path = written(tmp_path / "v", content)
        with pytest.raises(BadInputError, match=r"is not UTF-8.*--encoding-errors skip"):
            read(path)
        assert read(path, encoding_errors="replace")[0] == ["the", "f\ufffdr", "to"]
        tokens, table, facts = read(path, encoding_errors="skip")
        assert (tokens, len(table)) == (["the", "to"], 2)
        assert table[1, 0] == 4
        assert [part.count for part in facts.left_out] == [1]

    def test_equal_tokens_are_counted_if_few_and_refused_if_many(self, tmp_path):
        lines = [f"w{row % 100} {row}.5 1" for row in range(110)]
        tokens, _, facts = read(written(tmp_path / "few", "\n".join(lines)))
        assert (len(tokens), facts.left_out[0].count) == (100, 10)
        path = written(tmp_path / "many", "\n".join(f"w{row % 100} {row}.5 1" for row in range(200)))
        with pytest.raises(BadInputError, match=r"100 of 200 rows repeat earlier tokens.*--drop-duplicates"):
            read(path)
        tokens, _, facts = read(path, drop_duplicates=True)
        assert (len(tokens), facts.left_out[0].count) == (100, 100)


class TestNumpy:
    @pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2", "<f8", ">f8"])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_npy_of_each_float_type_and_order_is_read(self, tmp_path, dtype, order):
        np.save(tmp_path / "v.npy", np.asarray(TABLE.astype(dtype), order=order))
        tokens, table, _ = read(tmp_path / "v.npy")
        assert tokens is None
        np.testing.assert_array_equal(table, TABLE.astype(dtype).astype(table.dtype))

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_npz_needs_one_matrix_or_module_option(self, tmp_path, save):
        save(tmp_path / "v.npz", embedding=TABLE, bias=TABLE[0], step=3)
        np.testing.assert_array_equal(read(tmp_path / "v.npz")[1], TABLE)
        save(tmp_path / "w.npz", users=TABLE, items=-TABLE)
        with pytest.raises(
            BadInputError, match=r"got 2 matrices, expected one: name it with compress --module NAME: users, items"
        ) as caught:
            read(tmp_path / "w.npz")
        assert not any(word in str(caught.value) for word in ("damaged", "fetch it again"))
        program = load_foreign(tmp_path / "w.npz", ["items"])
        np.testing.assert_array_equal(program.module.weight("items.weight").numpy(), -TABLE)

    @pytest.mark.parametrize(
        ("array", "match"),
        [
            (TABLE[0], r"got float32 \[6\], expected a matrix"),
            ((TABLE * 9).astype(np.int8), "got int8.*multiply codes with their scales"),
            (np.array([["a", {}]], object), "no array of numbers|got object"),
            (np.full((2, 2), np.nan), "row 0: got NaN"),
            (np.full((2, 2), 1e300), "row 0: got NaN, an infinity or a number too large"),
        ],
    )
    def test_npy_without_table_is_refused(self, tmp_path, array, match):
        np.save(tmp_path / "v.npy", array, allow_pickle=True)
        with pytest.raises(BadInputError, match=match):
            read(tmp_path / "v.npy")

    def test_sizes_beyond_numpy_file_are_refused(self, tmp_path):
        np.save(tmp_path / "v.npy", TABLE)
        content = (tmp_path / "v.npy").read_bytes()
        huge = content.replace(b"(40, 6), }", b"(99999999999, 6), }").replace(b" " * 9 + b"\n", b"\n", 1)
        with pytest.raises(BadInputError, match="fetch it again"):
            read(written(tmp_path / "h.npy", huge))
        with pytest.raises(BadInputError, match="fetch it again"):
            read(written(tmp_path / "c.npy", content[:-1]))
        np.savez_compressed(tmp_path / "z.npz", v=np.zeros((1 << 15, 1 << 10), np.float32))
        with pytest.raises(BadInputError, match="content exceeds 100 times its compressed size"):
            read(tmp_path / "z.npz")
        with zipfile.ZipFile(tmp_path / "s.npz", "w") as archive:
            archive.writestr("v.npy", huge)
        with pytest.raises(BadInputError, match="fetch it again"):
            read(tmp_path / "s.npz")


NAMES = [f"name {row}" for row in range(40)]


class TestTokensFrom:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("metadata.tsv", "\n".join(NAMES)),
            ("two.tsv", "\n".join(["id\tword", *(f"{row}\t{name}" for row, name in enumerate(NAMES))]) + "\n"),
            ("list.json", json.dumps(NAMES)),
            ("vocab.json", json.dumps({name: row for row, name in reversed(list(enumerate(NAMES)))})),
        ],
    )
    def test_tokens_from_file_belong_to_rows(self, tmp_path, name, content):
        np.savetxt(tmp_path / "vectors.tsv", TABLE, delimiter="\t")
        tokens, table, _ = read(tmp_path / "vectors.tsv", tokens_from=written(tmp_path / name, content))
        assert tokens == NAMES
        np.testing.assert_array_equal(table, TABLE)

    def test_metadata_file_beside_vectors_is_named_in_remark(self, tmp_path):
        np.savetxt(tmp_path / "vectors.tsv", TABLE, delimiter="\t")
        written(tmp_path / "metadata.tsv", "\n".join(NAMES))
        assert any("--tokens-from" in remark for remark in read(tmp_path / "vectors.tsv")[2].remarks)

    @pytest.mark.parametrize(
        ("content", "match"),
        [("a\nb", "got 2 tokens, expected 40"), ("x\n" * 40, "for two rows"), ("\n" * 40, "row 1: got 0 characters")],
    )
    def test_tokens_that_do_not_fit_rows_are_refused(self, tmp_path, content, match):
        np.save(tmp_path / "v.npy", TABLE)
        with pytest.raises(BadInputError, match=match):
            read(tmp_path / "v.npy", tokens_from=written(tmp_path / "t.txt", content))


def test_commands_list_rows_left_out_and_refuse_wrong_option(tmp_path):
    lines = "\n".join(f"w{row % 390} {' '.join(f'{number:.3f}' for number in TABLE[row % 40])}" for row in range(400))
    path = written(tmp_path / "v.txt", lines)
    done = CliRunner().invoke(cli.main, ["inspect", str(path), "--json"])
    assert json.loads(done.stdout)["source"]["left_out"][0]["count"] == 10
    assert "left out: rows, 10" in CliRunner().invoke(cli.main, ["inspect", str(path)]).output
    options = ["--method", "rows", "--bits", "8", "-o", str(tmp_path / "v.pt")]
    done = CliRunner().invoke(cli.main, ["compress", str(path), *options, "--json"])
    assert json.loads(done.stdout)["source"]["left_out"][0]["count"] == 10
    done = CliRunner().invoke(cli.main, ["compress", str(path), *options, "--force"])
    assert "left out: rows, 10" in done.output
    done = CliRunner().invoke(cli.main, ["compress", str(tmp_path / "v.pt"), "--no-tokens", *options, "--force"])
    assert (done.exit_code, "expected word vectors" in done.output) == (2, True)
