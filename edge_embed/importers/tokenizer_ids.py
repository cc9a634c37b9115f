"""Ids of the tokenizer in a folder: the model needs a row for each."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError, located
from edge_embed.importers.json_object import read_json_object
from edge_embed.input_file import read_whole

_LOG = logging.getLogger(__name__)
_TOKENIZER, _SETTINGS, _TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"
_MOST_TOKENIZER, _MOST_TEXT = 256 << 20, 64 << 20
_ROLES = tuple(f"{role}_token" for role in ("bos", "eos", "pad", "unk", "sep", "cls", "mask"))


def check_ids(folder: Path, rows: int, place: str) -> dict[str, Any] | None:
    """Check the tokenizer in a folder; a tokenizer without ``tokenizer.json`` is not read.

    Text models of Gemma come with a special token for images, which has no row. So a special token without a role, and
    outside of the chat template, may lack a row; a warning names it.

    Args:
        folder: folder of the model.
        rows: number of rows of the model.
        place: file and key with this number, for messages.

    Returns:
        The content of ``tokenizer.json``, None without this file.

    Raises:
        BadInputError: the tokenizer is damaged, or has an id without a row.
    """
    used = _used_texts(folder)
    if not (folder / _TOKENIZER).exists():
        return None
    content = read_json_object(folder / _TOKENIZER, _MOST_TOKENIZER, "a tokenizer")
    special = {}
    largest, name = -1, ""
    for token, at, is_special in _tokens(content):
        if type(at) is not int or at < 0:
            raise BadInputError(f"{_TOKENIZER}: {token!r:.80}: got the id {at!r:.80}, expected an integer >= 0")
        if at >= rows and is_special and token not in used:
            special[token] = at
        elif at > largest:
            largest, name = at, token
    if largest >= rows:
        raise BadInputError(
            f"{place}: got {rows} rows, expected more than the largest id {largest:.6g} of {_TOKENIZER} "
            f"({name!r:.80}): use the tokenizer of this model"
        )
    for token, at in special.items():
        _LOG.warning("%s: %s: %r has id %d, and the model %d rows: leave it out of texts",
                     folder, _TOKENIZER, token[:80], at, rows)  # fmt: skip
    return content


def _tokens(content: dict[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Yield the tokens of a tokenizer, with id and whether they are special; unknown forms have none."""
    model, added = content.get("model"), content.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        yield from ((token, at, False) for token, at in vocabulary.items())
    elif isinstance(vocabulary, list) and vocabulary:
        last = vocabulary[-1]  # a token with its score
        yield str(last[0] if isinstance(last, list) and last else last), len(vocabulary) - 1, False
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict):
            yield str(token.get("content", "")), token.get("id"), token.get("special") is True


def _used_texts(folder: Path) -> str:
    """Return the chat templates, and the tokens with a role."""
    texts = []
    if (folder / _SETTINGS).exists():
        settings = read_json_object(folder / _SETTINGS, _MOST_TEXT, "the settings of a tokenizer")
        texts = [str(settings.get(name, "")) for name in ("chat_template", *_ROLES)]
    if (folder / _TEMPLATE).is_file():
        with located(_TEMPLATE):
            texts.append(read_whole(folder / _TEMPLATE, _MOST_TEXT, "a chat template").decode("utf-8", "replace"))
    return "\n".join(texts)
