"""A ``tokenizer.json`` in the library tokenizers."""

from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError, EdgeEmbedError, located, one_line
from edge_embed.input_file import read_whole

_LARGEST = 64 << 20
_INSTALL = 'pip install "edge-embed[tokenizer]"'


def read_tokenizer(path: Path) -> Any:
    """Return the tokenizer of a file.

    Raises:
        BadInputError: the file is missing or damaged.
        EdgeEmbedError: the library is not installed.
    """
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415
    except ImportError as error:
        raise EdgeEmbedError(f"its tokens need the package tokenizers, which is not installed: {_INSTALL}") from error
    with located(path.name):
        content = read_whole(path, _LARGEST, "a tokenizer.json")
    try:
        return Tokenizer.from_str(content.decode("utf-8"))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        # The library's panic is a BaseException of a class that it does not export.
        refusal = f"the library tokenizers refuses it ({one_line(error)}), expected a tokenizer.json"
        raise BadInputError(f"{path.name}: {refusal}") from error
