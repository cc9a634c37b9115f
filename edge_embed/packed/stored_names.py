"""Names of packed tensors in a program or file: ``<table>.<tensor>``, such as ``encoder.embedding.codes``."""

from collections.abc import Iterable


def stored_name(table: str, tensor: str) -> str:
    """The name of a tensor of a table."""
    return f"{table}.{tensor}"


def stored_names(table: str, tensors: Iterable[str]) -> dict[str, str]:
    """The names of several tensors of a table, by that of the tensor."""
    return {tensor: stored_name(table, tensor) for tensor in tensors}


def table_and_tensor(name: str) -> tuple[str, str]:
    """What a name is made of: a table may have dots in its name, a tensor has none. Without a dot there is no table."""
    table, _, tensor = name.rpartition(".")
    return table, tensor


def table_of(name: str) -> str:
    """The table that a tensor belongs to; empty where the name is none of a packed tensor."""
    return table_and_tensor(name)[0]
