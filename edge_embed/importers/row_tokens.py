"""Common parts of files with one row after the other: limits, and tokens from bytes."""

from edge_embed.errors import BadInputError
from edge_embed.importers.reading_options import EncodingErrors

MAX_TOKEN_BYTES = 1 << 16
MAX_COLUMNS = 1 << 20
_SKIP = "--encoding-errors skip"


def decoded(token: bytes, place: str, errors: EncodingErrors = "strict") -> str | None:
    """Return a token as text, or None if its row is left out.

    Args:
        token: bytes in the file.
        place: place in the file, for messages.
        errors: handling of a token that is empty or not UTF-8.

    Raises:
        BadInputError: it is longer than any token; or it is empty or not UTF-8, and ``errors`` does not allow that.
    """
    if not token:
        if errors == "skip":
            return None
        raise BadInputError(f"{place}: its token is empty: correct it, or leave the row out with {_SKIP}")
    if len(token) > MAX_TOKEN_BYTES:
        raise BadInputError(f"{place}: got a token of {len(token)} bytes, expected at most {MAX_TOKEN_BYTES}")
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError as error:
        if errors == "skip":
            return None
        if errors == "replace":
            return token.decode("utf-8", "replace")
        raise BadInputError(
            f"{place}: the token {token!r:.80} is not UTF-8: write the file in UTF-8, or leave the row out with "
            f"{_SKIP}, or give --encoding-errors replace"
        ) from error


def is_text(token: bytes) -> bool:
    """Return whether a token is UTF-8."""
    try:
        token.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def header_of(line: bytes) -> tuple[int, int] | None:
    """Return rows and columns if this is the first line of a word2vec file, else None."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 12 for field in fields):
        return None
    return int(fields[0]), int(fields[1])


def check_size(num_rows: int, num_columns: int) -> None:
    """Raise for sizes that no table has.

    Raises:
        BadInputError: no rows or columns, or too many columns.
    """
    if num_rows < 1 or not 1 <= num_columns <= MAX_COLUMNS:
        raise BadInputError(
            f"got {num_rows} rows of {num_columns} numbers, expected at least one row of 1 to {MAX_COLUMNS} numbers"
        )
