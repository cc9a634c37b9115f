"""Names of packed tensors in a program or file: ``<table>.<tensor>``, such as ``encoder.embedding.codes``."""

from collections.abc import Iterable


def stored_name(table: str, tensor: str) -> str:
    """Return the stored name of a tensor of a table."""
    return f"{table}.{tensor}"


def stored_names(table: str, tensors: Iterable[str]) -> dict[str, str]:
    """Return the stored names of several tensors of a table, by tensor."""
    return {tensor: stored_name(table, tensor) for tensor in tensors}


def table_and_tensor(name: str) -> tuple[str, str]:
    """Split a stored name into table and tensor. Only table names have dots; without a dot the table is empty."""
    table, _, tensor = name.rpartition(".")
    return table, tensor


def table_of(name: str) -> str:
    """Return the table of a stored name; empty if the name is not that of a packed tensor."""
    return table_and_tensor(name)[0]
