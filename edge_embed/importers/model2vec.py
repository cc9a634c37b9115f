"""model2vec and sentence-transformers' StaticEmbedding: a table in safetensors, with tokens in the tokenizer beside it.

Newer models have fewer rows than tokens. The vector of token i is ``weights[i] * embeddings[mapping[i]]``, which
becomes row i here. The later steps of such a model, a mean of rows and perhaps a norm, are not part of a table.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.importers.safetensors_file import table_name
from edge_embed.importers.tokenizer_file import read_tokenizer
from edge_embed.importers.word_vectors import Vectors, check_finite

KEYS = ("embeddings", "embedding.weight")
_TOKENIZER = "tokenizer.json"
_FOLDERS = (".", "0_StaticEmbedding")
_MODEL = "model.safetensors"
_LARGEST_TOKENIZER = 64 << 20
_MOST_EXPANSION = 100  # times the rows, maximum of tokens
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_INTEGERS = (torch.uint8, torch.int16, torch.int32, torch.int64)
_INSTALL = 'pip install "edge-embed[tokenizer]"'


def model_in(folder: Path) -> Path | None:
    """Return the file with the numbers in the folder of a model, or None."""
    for name in _FOLDERS:
        if (folder / name / _MODEL).is_file() and (folder / name / _TOKENIZER).is_file():
            return folder / name / _MODEL
    return None


def is_model2vec(path: Path) -> bool:
    """Return whether a safetensors file holds such a model and its tokenizer is beside it."""
    if not (path.parent / _TOKENIZER).is_file():
        return False
    try:
        with safe_open(path, framework="pt") as file:
            keys = set(file.keys())
    except (SafetensorError, OSError):
        return False
    return bool(keys) and any({key} <= keys <= {key, "weights", "mapping"} for key in KEYS)


def read_model2vec(path: Path) -> Vectors:
    """Read the table of a model, with its tokens.

    Args:
        path: the safetensors file.

    Raises:
        BadInputError: one of the files is damaged, they do not belong together, or the table is quantised to int8.
        EdgeEmbedError: the library `tokenizers` is not installed.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        raise BadInputError(f"is damaged or not a safetensors file: {error!s:.300}") from error
    (key,) = (key for key in KEYS if key in tensors)
    tokens = _tokens(path.parent / _TOKENIZER)
    stored = tensors.pop(key)
    if stored.ndim != 2 or 0 in stored.shape or stored.dtype not in _FLOATS:
        raise BadInputError(
            f"{key}: got {str(stored.dtype).removeprefix('torch.')} {list(stored.shape)}, expected a table in float32, "
            "float16 or bfloat16: save the model without quantize_to"
        )
    table = _unfolded(stored, len(tokens), **tensors)
    check_finite(table, lambda row: f"row {row} ({tokens[row]!r:.80})")
    return Vectors(table, tokens, table_name(key), path)


def _unfolded(table: Tensor, num_tokens: int, weights: Tensor | None = None, mapping: Tensor | None = None) -> Tensor:
    """Return a table with a row for each token."""
    for name, tensor in (("mapping", mapping), ("weights", weights)):
        if tensor is not None and tensor.shape != (num_tokens,):
            raise BadInputError(f"{name}: got {list(tensor.shape)}, expected [{num_tokens}], one for each token")
    if mapping is not None:
        table = _mapped(table, mapping)
    if len(table) != num_tokens:
        raise BadInputError(f"got {len(table)} rows, expected {num_tokens}, one for each token of the tokenizer")
    return table if weights is None else table * weights.to(table.dtype)[:, None]


def _mapped(table: Tensor, mapping: Tensor) -> Tensor:
    rows, most = len(table), _MOST_EXPANSION * len(table)
    if len(mapping) > most:
        raise BadInputError(f"mapping: got {len(mapping)} tokens for {rows} rows, expected at most {most}")
    if mapping.dtype not in _INTEGERS or mapping.min() < 0 or mapping.max() >= rows:
        raise BadInputError(f"mapping: expected integers from 0 to {rows - 1}")
    return table[mapping.long()]


def _tokens(path: Path) -> list[str]:
    """Return the tokens of a tokenizer by id."""
    library = read_tokenizer(path)
    by_id = {number: token for token, number in library.get_vocab(with_added_tokens=True).items()}
    if not by_id or sorted(by_id) != list(range(len(by_id))):
        raise BadInputError(f"{path.name}: got {len(by_id)} tokens, expected at least one, with consecutive ids from 0")
    return [by_id[number] for number in range(len(by_id))]
