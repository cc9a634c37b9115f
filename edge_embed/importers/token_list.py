"""Tokens of rows from a separate file: one line each, a projector's ``metadata.tsv``, or JSON."""

import json
from dataclasses import replace
from pathlib import Path

from edge_embed.errors import BadInputError, located
from edge_embed.importers.reading_options import EncodingErrors
from edge_embed.importers.row_tokens import MAX_TOKEN_BYTES
from edge_embed.importers.word_vectors import Vectors

_LARGEST = 1 << 30
_COLUMNS = ("token", "word", "label", "name", "term", "title")  # column titles of metadata.tsv
_BESIDE = "metadata.tsv"


def with_tokens(vectors: Vectors, tokens_from: Path, errors: EncodingErrors) -> Vectors:
    """Return vectors with the tokens of a file.

    Raises:
        BadInputError: the vectors have tokens, or the file does not have one different token for each row.
    """
    if vectors.tokens is not None:
        raise BadInputError("--tokens-from: got it for vectors that contain tokens: leave it out, or give --no-tokens")
    with located(str(tokens_from)):
        tokens = _tokens(tokens_from, len(vectors.table), errors)
        if len(set(tokens)) < len(tokens):
            seen: set[str] = set()
            again = next(token for token in tokens if token in seen or seen.add(token))  # type: ignore[func-returns-value]
            raise BadInputError(f"got {again!r:.80} for two rows, expected different tokens: rename one of them")
    return replace(vectors, tokens=tokens)


def tokens_beside(vectors: Vectors) -> str:
    """Return the remark that an embedding projector's file beside the vectors may have tokens, or an empty string."""
    beside = vectors.source.parent / _BESIDE
    there = vectors.tokens is None and vectors.source.suffix == ".tsv" and beside.is_file()
    return f"tokens may be in {beside.name} beside it: give --tokens-from {beside}" if there else ""


def _tokens(path: Path, num_rows: int, errors: EncodingErrors) -> list[str]:
    try:
        size = path.stat().st_size
        if not path.is_file() or size > _LARGEST:
            raise BadInputError(
                f"is not a regular file of at most {_LARGEST} bytes, expected the tokens of {num_rows} rows"
            )
        content = path.read_bytes()
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}") from error
    try:
        text = content.decode("utf-8-sig", "replace" if errors == "replace" else "strict")
    except UnicodeDecodeError as error:
        raise BadInputError(f"is not UTF-8 ({error!s:.100}): write it in UTF-8") from error
    tokens = _of_json(text) if text[:1] in ("{", "[") and path.suffix == ".json" else _of_lines(text, num_rows)
    if len(tokens) != num_rows:
        raise BadInputError(
            f"got {len(tokens)} tokens, expected {num_rows}, one for each row: give the file of these vectors"
        )
    for row, token in enumerate(tokens):
        if not token or len(token) > MAX_TOKEN_BYTES:
            raise BadInputError(f"row {row + 1}: got {len(token)} characters, expected 1 to {MAX_TOKEN_BYTES}")
    return tokens


def _of_lines(text: str, num_rows: int) -> list[str]:
    """Return the token of each line, which is the whole line, or its field under a title."""
    lines = text.removesuffix("\n").split("\n")
    rows = [line.removesuffix("\r").split("\t") for line in lines]
    titles = [title.strip().lower() for title in rows[0]]
    column = next((titles.index(name) for name in _COLUMNS if name in titles), 0)
    if len(rows) == num_rows + 1 and (len(titles) > 1 or titles[0] in _COLUMNS):
        rows = rows[1:]
    return [row[column] if column < len(row) else "" for row in rows]


def _of_json(text: str) -> list[str]:
    """Return the tokens of a list, or of a mapping from tokens to their rows."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"is not JSON ({error!s:.100})") from error
    if isinstance(content, dict):
        by_row = {row: token for token, row in content.items() if type(row) is int}
        if sorted(by_row) != list(range(len(content))):
            raise BadInputError("expected the row of each token, consecutive from 0")
        return [by_row[row] for row in range(len(content))]
    if not isinstance(content, list) or not all(isinstance(token, str) for token in content):
        raise BadInputError("expected a list of tokens, or a mapping from tokens to rows")
    return content
