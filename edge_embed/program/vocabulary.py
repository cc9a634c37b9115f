"""Vocabulary stored with a model: its tokens in the order of their ids."""

import warnings
from collections.abc import Iterable, Mapping

from torch import nn

from edge_embed.errors import BadInputError

_OF_CALLER = 6  # frames between this module and the call of `edge_embed.save`


def tokens_by_id(vocabulary: Iterable[str] | Mapping[str, int]) -> list[str]:
    """Return the token of every id, from a list of tokens or a mapping from tokens to ids.

    Raises:
        BadInputError: if it is one text, or a set, which has no order, or the ids of a mapping are not 0, 1, 2 and so
            on, each once.
    """
    if isinstance(vocabulary, str | bytes | set | frozenset) or not isinstance(vocabulary, Iterable):
        raise BadInputError(
            f"vocabulary: got a {type(vocabulary).__name__}, expected a list of tokens, one for each id"
        )
    if not isinstance(vocabulary, Mapping):
        return list(vocabulary)
    tokens = {number: token for token, number in vocabulary.items()}
    if set(tokens) != set(range(len(vocabulary))):
        raise BadInputError(
            f"vocabulary: got a mapping whose ids are not 0 to {len(vocabulary) - 1}, each once: give a list with "
            "one token for every id, and a text such as <unused> for an id without a token"
        )
    return [tokens[number] for number in range(len(vocabulary))]


def warn_of_other_sizes(model: nn.Module, tokens: list[str]) -> None:
    """Warn if no table has as many rows as there are tokens; a model may pad its table, or hash ids."""
    rows = {name: table.num_embeddings for name, table in model.named_modules() if hasattr(table, "num_embeddings")}
    if not rows or len(tokens) in rows.values():
        return
    name, largest = max(rows.items(), key=lambda item: item[1])
    what = f"rows from {len(tokens)} on have no token"
    if len(tokens) > largest:
        what = f"tokens from {tokens[largest]!r:.80} on have no row"
    table = f"the table {name}" if name else "the table"
    message = f"vocabulary: got {len(tokens)} tokens, expected {largest}, the rows of {table}: {what}"
    warnings.warn(message, stacklevel=_OF_CALLER)
