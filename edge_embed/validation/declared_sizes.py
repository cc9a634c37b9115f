"""Sizes that a file declares for its inputs and outputs, compared with those of an export.

A tool may fix a dynamic size of an input, and with it sizes of outputs. Any other difference misleads a runtime, which
plans its memory by the declared sizes.
"""

from collections.abc import Iterator

from edge_embed.validation.expected_export import Port, Structure


def size_differences(found: Structure, expected: Structure) -> Iterator[str]:
    """Yield the differences of sizes that no tool makes, in words; all other properties of the ports must be equal."""
    fixed: dict[str, int] = {}
    for port, other in zip(found.inputs, expected.inputs, strict=True):
        for at, (got, wanted) in enumerate(zip(port.sizes, other.sizes, strict=True)):
            if isinstance(wanted, str) and isinstance(got, int) and fixed.setdefault(wanted, got) == got:
                continue
            if got != wanted:
                yield _difference("input", port, at, got, wanted)
    for port, other in zip(found.outputs, expected.outputs, strict=True):
        for at, (got, wanted) in enumerate(zip(port.sizes, other.sizes, strict=True)):
            is_fixed = isinstance(wanted, str) and isinstance(got, int) and fixed and fixed.get(wanted, got) == got
            if wanted not in (got, "") and not is_fixed:
                yield _difference("output", port, at, got, wanted)


def _difference(what: str, port: Port, at: int, got: int | str, wanted: int | str) -> str:
    return f"{what} {port.name}, dimension {at}: got {got or 'none'!s:.40}, expected {wanted or 'none'!s:.40}"
