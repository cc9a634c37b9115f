"""Ids of the tokens of a text file."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, located, one_line
from edge_embed.importers.tokenizer_file import read_tokenizer
from edge_embed.input_file import read_whole

_LARGEST = 64 << 20


def text_ids(file: Path, tokenizer: Path) -> NDArray[np.int64]:
    """Return the ids of the whole text, [n], with the special tokens that the tokenizer adds.

    Args:
        file: text in UTF-8.
        tokenizer: ``tokenizer.json`` of the model.

    Raises:
        BadInputError: a file is missing or damaged, or the tokenizer does not encode the text.
        EdgeEmbedError: the library tokenizers is not installed.
    """
    with nullcontext() if tokenizer.parent == Path() else located(str(tokenizer.parent)):
        library = read_tokenizer(tokenizer)
    library.no_padding()
    library.no_truncation()
    with located(str(file)):
        content = read_whole(file, _LARGEST, "text in UTF-8")
        try:
            return np.array(library.encode(content.decode("utf-8-sig")).ids, np.int64)
        except UnicodeDecodeError as error:
            raise BadInputError(f"is not text in UTF-8 ({error.reason}), expected text") from error
        except Exception as error:  # the library has no other class
            raise BadInputError(f"{one_line(error)}, expected text that the tokenizer encodes") from error
