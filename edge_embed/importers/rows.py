"""What files with one row after the other share: limits, and tokens from bytes."""

from edge_embed.errors import BadInputError

MAX_TOKEN_BYTES = 1 << 16
MAX_COLUMNS = 1 << 20


def decoded(token: bytes, place: str) -> str:
    """A token as text.

    Args:
        token: as it stands in the file.
        place: where, for messages.

    Raises:
        BadInputError: it is empty or longer than any token, or no UTF-8.
    """
    if not token:
        raise BadInputError(f"{place}: its token is empty")
    if len(token) > MAX_TOKEN_BYTES:
        raise BadInputError(f"{place}: got a token of {len(token)} bytes, expected at most {MAX_TOKEN_BYTES}")
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{place}: the token {token!r:.80} is not UTF-8: write the file in UTF-8") from error


def header_of(line: bytes) -> tuple[int, int] | None:
    """Rows and columns, if this is the first line of a word2vec file."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 12 for field in fields):
        return None
    return int(fields[0]), int(fields[1])


def check_size(num_rows: int, num_columns: int) -> None:
    """Refuse sizes that no table has.

    Raises:
        BadInputError: no rows or columns, or too many columns.
    """
    if num_rows < 1 or not 1 <= num_columns <= MAX_COLUMNS:
        raise BadInputError(
            f"got {num_rows} rows of {num_columns} numbers, expected at least one row of 1 to {MAX_COLUMNS} numbers"
        )
