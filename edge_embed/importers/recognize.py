"""Recognition of models of other tools, and of their format, by the content of a file or folder."""

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path

from edge_embed.errors import BadInputError, located
from edge_embed.importers.byte_stream import begin
from edge_embed.importers.fasttext_bin import read_bin
from edge_embed.importers.fasttext_ftz import read_ftz
from edge_embed.importers.fasttext_model import MAGIC, read_model
from edge_embed.importers.lookup_program import program_of
from edge_embed.importers.matrix import MAGIC as NPY
from edge_embed.importers.matrix import read_npy, read_npz
from edge_embed.importers.model2vec import is_model2vec, model_in, read_model2vec
from edge_embed.importers.reading_options import AS_IT_SHOWS, Reading
from edge_embed.importers.row_tokens import header_of
from edge_embed.importers.safetensors_file import read_safetensors
from edge_embed.importers.text_layout import are_rows, first_lines
from edge_embed.importers.token_list import tokens_beside, with_tokens
from edge_embed.importers.transformers_folder import is_transformers, read_transformers
from edge_embed.importers.word2vec_binary import read_word2vec_binary
from edge_embed.importers.word2vec_text import read_word2vec_text
from edge_embed.importers.word_vectors import PackedVectors, Vectors
from edge_embed.program.file_kind import is_npz, is_tar
from edge_embed.program.program import Program, ProgramInput

Reader = Callable[[], Vectors | PackedVectors]
_START_BYTES = 1 << 16


def load_foreign(
    path: Path,
    tables: Collection[str] = (),
    inputs: Collection[ProgramInput] = (),
    reading: Reading = AS_IT_SHOWS,
    cache: bool = True,
) -> Program | None:
    """Load a file of vectors as a model of one table, or a transformers folder; return None for anything else.

    Args:
        path: a file, or the folder of a model2vec or transformers model.
        tables: name of the table, for a safetensors or npz file with several tables.
        inputs: inputs given by the user; these models have known inputs and accept none.
        reading: options for vectors.
        cache: for a transformers folder, as for `read_transformers`.

    Raises:
        BadInputError: the file is damaged or unsupported, or the choice of a table is ambiguous.
        EdgeEmbedError: a library that the format needs is not installed.
    """
    with located(str(path)):
        if is_transformers_folder(path):
            if inputs:
                raise BadInputError("got --input for a transformers model, whose inputs are known: leave it out")
            return read_transformers(path, cache)
        reader = _reader(path, tables, reading)
        if reader is None:
            return None
        if inputs:
            raise BadInputError(
                "got --input for a file of vectors, whose input is ids: leave it out; for the weights of a model, give "
                "--model package.module:function"
            )
        return program_of(_finished(reader(), reading))


def _finished(vectors: Vectors | PackedVectors, reading: Reading) -> Vectors | PackedVectors:
    """Return vectors with the tokens of another file, if requested."""
    if reading.tokens_from is not None:
        if isinstance(vectors, PackedVectors):
            raise BadInputError("--tokens-from: got it for vectors that contain tokens: leave it out")
        return with_tokens(vectors, reading.tokens_from, reading.encoding_errors)
    if reading.has_tokens and vectors.tokens is None:
        raise BadInputError("--tokens: got rows without tokens, expected one before each row: give --tokens-from FILE")
    remark = tokens_beside(vectors) if isinstance(vectors, Vectors) else ""
    if not remark:
        return vectors
    return replace(vectors, facts=replace(vectors.facts, remarks=(*vectors.facts.remarks, remark)))


def is_transformers_folder(path: Path) -> bool:
    """Return whether a path is a transformers folder; a model2vec folder may have a config and a tokenizer too."""
    if not path.is_dir() or not is_transformers(path):
        return False
    inside = model_in(path)
    return inside is None or not is_model2vec(inside)


def _reader(path: Path, tables: Collection[str], reading: Reading) -> Reader | None:
    if path.is_dir():
        inside = model_in(path)
        return None if inside is None else _of_safetensors(inside, tables)
    if not path.is_file() or not path.stat().st_size:  # a pipe would block, and so would some files of /proc
        return None
    try:
        with path.open("rb") as file:
            first, size = file.read(9), os.fstat(file.fileno()).st_size
    except OSError:
        return None
    if first[8:] == b"{" and int.from_bytes(first[:8], "little") <= size - 8:
        return _of_safetensors(path, tables)
    if first.startswith(NPY):
        return partial(read_npy, path)
    if first.startswith(b"PK"):
        return partial(read_npz, path, tables) if is_npz(path) else None
    start = begin(path, _START_BYTES)
    if is_tar(start):  # an archive of texts would look like vectors
        return None
    if start.startswith(MAGIC):
        return partial(_read_fasttext, path, reading)
    return _of_rows(path, start, reading)


def _read_fasttext(path: Path, reading: Reading) -> Vectors | PackedVectors:
    model = read_model(path)
    return read_ftz(model, reading) if model.is_quantised else read_bin(model, reading)


def _of_safetensors(path: Path, tables: Collection[str]) -> Reader:
    return partial(read_model2vec, path) if is_model2vec(path) else partial(read_safetensors, path, tables)


def _of_rows(path: Path, start: bytes, reading: Reading) -> Reader | None:
    """Return the reader of a file with a row for each token, as text or after a line of text."""
    lines = first_lines(start, _START_BYTES)
    if header_of(lines[0]) is not None:
        return partial(read_word2vec_text if are_rows(lines[1:]) else read_word2vec_binary, path, reading)
    return partial(read_word2vec_text, path, reading) if are_rows(lines) else None
