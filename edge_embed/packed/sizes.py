"""Checks of numbers that a file declares, before anything is computed or allocated from them."""

from edge_embed.errors import BadInputError

MAX_SIZE = 2**63 - 1
"""Every count and byte size must fit a signed 64-bit integer, here and in the kernels."""


def check_count(name: str, number: object, least: int = 1, most: int = MAX_SIZE) -> None:
    """Raise `BadInputError` unless a number is an ``int`` from ``least`` (0 or 1) to ``most``.

    Raises:
        BadInputError: The message names the number.
    """
    if type(number) is not int or number < least:
        kind = "a positive integer" if least else "zero or a positive integer"
        raise BadInputError(f"{name}: got {number!r:.80}, expected {kind}")
    if number > MAX_SIZE:  # it and its products may be too long to print
        raise BadInputError(f"{name}: got a number of {number.bit_length()} bits, expected at most {most}")
    if number > most:
        raise BadInputError(f"{name}: got {number}, expected at most {most}")


def check_total(num_embeddings: int, embedding_dim: int, nbytes: int) -> None:
    """Raise `BadInputError` for a table whose bytes, dense or packed, exceed a 64-bit integer.

    Raises:
        BadInputError: The message gives both sizes.
    """
    dense_bytes = 4 * num_embeddings * embedding_dim
    if max(dense_bytes, nbytes) > MAX_SIZE:
        raise BadInputError(
            f"table of {num_embeddings} x {embedding_dim}: {dense_bytes} bytes dense and {nbytes} packed, "
            f"expected at most {MAX_SIZE}; use fewer rows or columns"
        )
