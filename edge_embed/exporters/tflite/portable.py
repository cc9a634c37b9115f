"""Operators that every tested runtime supports: those of tflite-runtime 2.14, without calls and loops."""

from collections.abc import Iterable

from edge_embed.exporters.tflite.flatbuffer import load_schema

LEAST_TFLITE = "2.14"
_NEWEST = "RIGHT_SHIFT"  # of that release
_LEFT_OUT = {"CALL", "CALL_ONCE", "CUSTOM", "DELEGATE", "IF", "PLACEHOLDER_FOR_GREATER_OP_CODES", "WHILE"}


def not_portable(operators: Iterable[str]) -> list[str]:
    """Return the operators that some runtime lacks, of operators by their names in the schema."""
    numbers = vars(load_schema().BuiltinOperator)
    return sorted(name for name in operators if name in _LEFT_OUT or numbers[name] > numbers[_NEWEST])
