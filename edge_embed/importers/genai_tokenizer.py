"""Tokenizer of a folder of ONNX Runtime GenAI: the files that the runtime opens to encode and decode texts.

``tokenizer_config.json`` holds the settings. The vocabulary lies in ``tokenizer.json``, or in the file that the
settings or ``tokenizer_module.json`` name as ``tiktoken_file``. The runtime opens these files for ``Tokenizer`` only.
So a folder without any of them generates from ids, and a folder with some of them has lost the others.
"""

import os
from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError, located
from edge_embed.importers.json_object import read_json_object
from edge_embed.importers.tokenizer_ids import check_ids
from edge_embed.input_file import check_regular, path_beside

NO_TOKENIZER = "no tokenizer, so the runtime generates from ids alone: for texts, copy the tokenizer of the model"
_VOCABULARY, _SETTINGS, _MODULE, _TIKTOKEN = (
    "tokenizer.json", "tokenizer_config.json", "tokenizer_module.json", "tiktoken_file",
)  # fmt: skip
_OTHERS = (  # files that only a tokenizer uses
    "added_tokens.json", "chat_template.jinja", "merges.txt", "special_tokens_map.json", "spiece.model",
    "tokenizer.model", "vocab.json", "vocab.txt",
)  # fmt: skip
_MOST_JSON = 64 << 20


def check_tokenizer(folder: Path, rows: int, place: str) -> bool:
    """Check the tokenizer in a folder.

    Args:
        folder: folder of the model.
        rows: number of rows of the model.
        place: file and key with this number, for messages.

    Returns:
        Whether the folder has a tokenizer.

    Raises:
        BadInputError: a part of the tokenizer is missing or damaged, or an id has no row.
    """
    there = [name for name in (_VOCABULARY, _SETTINGS, _MODULE, *_OTHERS) if os.path.lexists(folder / name)]
    if not there:
        return False
    remedy = f"copy all tokenizer files of the model, or remove {', '.join(there)} too, to generate from ids alone"
    name = _settings(folder, remedy).get(_TIKTOKEN, "")
    content = check_ids(folder, rows, place)
    if not isinstance(name, str):
        raise BadInputError(f"{_SETTINGS}: {_TIKTOKEN}: got {name!r:.80}, expected the name of a file")
    if name:
        path = path_beside(folder, name, f"{_SETTINGS}: {_TIKTOKEN}")
        with located(f"{name:.80}"):
            check_regular(path, f"the vocabulary that {_SETTINGS} names as {_TIKTOKEN}: {remedy}")
    elif content is None:
        with located(_VOCABULARY):
            check_regular(folder / _VOCABULARY, f"the vocabulary of the tokenizer: {remedy}")
    else:
        _check_vocabulary(content)
    return True


def _settings(folder: Path, remedy: str) -> dict[str, Any]:
    """Return the settings; those of the module have priority, as in the runtime."""
    settings = read_json_object(folder / _SETTINGS, _MOST_JSON, f"the settings of the tokenizer: {remedy}")
    if os.path.lexists(folder / _MODULE):
        settings |= read_json_object(folder / _MODULE, _MOST_JSON, "the module of a tokenizer")
    return settings


def _check_vocabulary(content: dict[str, Any]) -> None:
    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict | list):
        key, found = ("model.vocab", vocabulary) if isinstance(model, dict) else ("model", model)
        raise BadInputError(
            f"{_VOCABULARY}: {key}: got {found!r:.80}, expected the tokens with their ids: copy the tokenizer of "
            "the model"
        )
