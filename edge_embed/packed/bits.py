"""Codes of ``bits`` bits, packed row by row.

A row is one little-endian bit string; bit 0 is the least significant bit of byte 0. Code j occupies the bits
[j * bits, (j + 1) * bits), least significant first; rows start on a byte. With D = 3 groups of 3 bits:

    byte             0                       1
    bit      7 6 5 4 3 2 1 0         7 6 5 4 3 2 1 0
             c c b b b a a a         0 0 0 0 0 0 0 c        a, b, c = codes 0, 1, 2
             1 0 2 1 0 2 1 0         - spare: 0 -  2        below: bit of the code

The functions build this bit string literally, one byte for each bit, and pass it to ``numpy.packbits``. They work in
blocks of rows, so the bit string needs little memory.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError

MIN_CODES, MAX_CODES = 2, 65_536
_BLOCK_BITS = 1 << 20  # bits expanded at a time (one byte each): fits a processor's cache


def bits_for(num_codes: int) -> int:
    """Return the bits of one code: ceil(log2 K).

    Raises:
        BadInputError: K is not in 2 ... 65,536.
    """
    if not MIN_CODES <= num_codes <= MAX_CODES:
        raise BadInputError(f"num_codes: got {num_codes}, expected {MIN_CODES} to {MAX_CODES}")
    return (num_codes - 1).bit_length()


def row_bytes(num_groups: int, bits: int) -> int:
    """Return the bytes of one packed row: ceil(D * bits / 8)."""
    return (num_groups * bits + 7) // 8


def code_type(bits: int) -> type[np.uint8] | type[np.uint16]:
    """Return the smallest unsigned dtype that holds a code."""
    return np.uint8 if bits <= 8 else np.uint16


def row_blocks(num_rows: int, bits_per_row: int) -> Iterator[slice]:
    """Return an iterator over blocks of rows of about a million bits."""
    step = max(1, _BLOCK_BITS // bits_per_row)
    return (slice(start, min(start + step, num_rows)) for start in range(0, num_rows, step))


def pack(codes: NDArray[np.integer[Any]], bits: int) -> NDArray[np.uint8]:
    """Pack codes.

    Args:
        codes: Integers in 0 ... 2**bits - 1, shape [m, D], any integer dtype.
        bits: Bits per code, 1 to 16.

    Returns:
        uint8 [m, ceil(D * bits / 8)]; spare bits are zero.

    Raises:
        BadInputError: The codes are not integers, not two-dimensional, or one does not fit.
    """
    _check_bits(bits)
    if not np.issubdtype(codes.dtype, np.integer) or codes.ndim != 2 or codes.shape[1] == 0:
        raise BadInputError(f"codes: got {codes.dtype} {list(codes.shape)}, expected integers [rows, groups]")
    rows, groups = codes.shape
    packed = np.empty((rows, row_bytes(groups, bits)), np.uint8)
    for block in row_blocks(rows, groups * bits):
        check_below(codes[block], 1 << bits, first_row=block.start)
        narrow: NDArray[np.integer[Any]] = codes[block].astype(code_type(bits))  # [block, D]
        string = np.empty((*narrow.shape, bits), np.uint8)  # [block, D, bits]
        for bit in range(bits):
            string[..., bit] = (narrow >> bit) & 1
        packed[block] = np.packbits(string.reshape(len(narrow), -1), axis=1, bitorder="little")
    return packed


def unpack(rows: NDArray[np.uint8], bits: int, num_groups: int) -> NDArray[np.uint8 | np.uint16]:
    """Unpack rows; the inverse of :func:`pack`. Spare bits are ignored.

    Args:
        rows: uint8 [..., ceil(D * bits / 8)].
        bits: Bits per code, 1 to 16.
        num_groups: Number of groups D.

    Returns:
        Codes [..., D], uint8 for up to 8 bits, uint16 above.

    Raises:
        BadInputError: The rows are not uint8, or have another width.
    """
    _check_bits(bits)
    width = row_bytes(num_groups, bits)
    if rows.dtype != np.uint8 or rows.ndim == 0 or num_groups < 1 or rows.shape[-1] != width:
        raise BadInputError(
            f"packed rows: got {rows.dtype} {list(rows.shape)}, "
            f"expected uint8 [..., {width}] for {num_groups} groups of {bits} bits"
        )
    count = rows.size // width
    flat = rows.reshape(count, width)
    codes = np.empty((count, num_groups), code_type(bits))
    for block in row_blocks(count, num_groups * bits):
        string = np.unpackbits(flat[block], axis=1, count=num_groups * bits, bitorder="little")
        string = string.reshape(-1, num_groups, bits)  # [block, D, bits]
        total = string[..., 0].astype(codes.dtype)  # [block, D]
        for bit in range(1, bits):
            total |= string[..., bit].astype(codes.dtype) << bit
        codes[block] = total
    return codes.reshape(*rows.shape[:-1], num_groups)


def check_below(codes: NDArray[np.integer[Any]], num_codes: int, first_row: int = 0) -> None:
    """Raise `BadInputError` for a code outside 0 ... K - 1.

    Args:
        codes: [m, D].
        num_codes: Number of codes K per group.
        first_row: Number of the first row, for the message.

    Raises:
        BadInputError: The message names the first such row, its group and code.
    """
    if codes.size == 0 or (codes.min() >= 0 and codes.max() < num_codes):
        return
    row, group = map(int, np.argwhere((codes < 0) | (codes >= num_codes))[0])
    got = f"row {first_row + row}, group {group}: got code {codes[row, group]}"
    raise BadInputError(f"codes: {got}, expected 0 to {num_codes - 1}")


def _check_bits(bits: int) -> None:
    if not 1 <= bits <= 16:
        raise BadInputError(f"bits: got {bits}, expected 1 to 16")
