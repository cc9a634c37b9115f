"""Frequencies of rows from files of counts, ids and texts."""

import json
from pathlib import Path

import numpy as np
import pytest

from edge_embed.errors import BadInputError
from edge_embed.fitting.row_counts import counts_of
from edge_embed.importers.row_counts import read_row_counts


def counted(source: str, n: int = 5, tokenizer: Path | None = None) -> list[float]:
    return counts_of(read_row_counts(source, tokenizer), n).tolist()


@pytest.mark.parametrize("name", ["ids.npy", "ids.txt"])
def test_row_counts_of_ids_are_their_occurrences(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    if name == "ids.npy":
        np.save(file, np.array([[4, 1], [1, 0]]))
    else:
        file.write_text("4, 1\n\n" + "\n" * 2000 + "1 0\n", "utf-8-sig")
    assert counted(f"ids:{file}") == [1, 2, 0, 0, 1]


def test_row_counts_of_texts_are_those_of_tokens(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is missing: pip install 'edge-embed[tokenizer]'")
    vocab = {"[UNK]": 0, "a": 1, "b": 2}
    tokenizer = {
        "version": "1.0", "truncation": {"max_length": 1, "strategy": "LongestFirst", "stride": 0,
        "direction": "Right"}, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (tmp_path / "texts.txt").write_text("a b a\n\nb b c\n")
    assert counted(f"texts:{tmp_path / 'texts.txt'}", 4, tmp_path / "tokenizer.json") == [1, 2, 3, 0]
    tokenizer["model"]["unk_token"] = "[MISSING]"
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(BadInputError, match=r"texts.txt: lines 1 to 2: .*UNK.*, expected texts that the tokenizer"):
        counted(f"texts:{tmp_path / 'texts.txt'}", 4, tmp_path / "tokenizer.json")


def test_row_counts_of_order_and_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", np.array([3, 0, 2]))
    assert counted("order", 2) == [2, 1]
    assert counted(str(tmp_path / "counts.npy"), 3) == [3, 0, 2]


def test_row_counts_of_texts_without_tokenizer_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"got no tokenizer, .* --tokenizer FILE"):
        read_row_counts(f"texts:{tmp_path / 'texts.txt'}", None)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ids.txt", b"1 2\nx\n", "lines 1 to 2: .*expected integers with spaces"),
        ("ids.txt", b"1 2\n-1\n", "got -1, expected none below 0"),
        ("ids.txt", b"\n\n", "has no ids"),
        ("ids.txt", b"", "is empty"),
        ("ids.txt", b"\xff\xfe", "is not text in UTF-8"),
        ("ids.txt", b"99999999999999999999999", "expected integers"),
        ("ids.npy", b"1 2", "has no array header"),
    ],
)
def test_row_counts_of_damaged_files_are_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInputError, match=rf"{name}.*{message}"):
        read_row_counts(f"ids:{tmp_path / name}", None)


def test_row_counts_of_two_axes_name_ids(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.zeros((2, 3), np.int64))
    with pytest.raises(
        BadInputError, match=r"one count for each row, \[n\]: counts of a data set's ids are read by ids:"
    ):
        read_row_counts(str(tmp_path / "ids.npy"), None)
