"""fastText ``.ftz``: after the part that `fasttext_model` reads, a product-quantised matrix, which is used unchanged.

    row(i)[g s : g s + w] = norm(i) * centroid(g, codes[i, g])     g = 0 ... D - 1, w = s, or less in the last group

A row equals `fasttext.get_input_vector` bit for bit, except for the sign of a zero. Without n-grams it is the vector of
the word. With n-grams the vector is the mean of the rows of `fasttext.get_subwords`. Source: `QuantMatrix::save` and
`ProductQuantizer::save` of fastText 0.9.2. Little-endian::

    int8 has norms; int64 rows, columns; int32 size of the codes; uint8 codes [rows, D];
    a quantiser of the columns; with norms: uint8 codes of norms [rows], a quantiser of one column;
    the output layer follows

    quantiser: int32 columns, D, s, w; float32 centroids [D - 1, 256, s], [256, w]
"""

import struct

import numpy as np
from numpy.typing import NDArray

from edge_embed.importers.fasttext_file import FastTextFile, damaged
from edge_embed.importers.fasttext_left_out import parts_left_out
from edge_embed.importers.fasttext_model import FastTextModel
from edge_embed.importers.reading_options import AS_IT_SHOWS, EncodingErrors, Reading
from edge_embed.importers.word_vectors import PackedVectors
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.report.results.model_source import SourceFacts

_MATRIX = struct.Struct("<b2qi")
_QUANTISER = struct.Struct("<4i")
_CODES = 256  # centroids of a group


def read_ftz(model: FastTextModel, reading: Reading = AS_IT_SHOWS) -> PackedVectors:
    """Read all rows of a model: those of words, with their tokens, then those of the remaining buckets.

    Args:
        model: a quantised model; the codes stay mapped from its file.
        reading: options for words that are not UTF-8; rows cannot be left out.

    Raises:
        BadInputError: it is damaged, or holds numbers that are not finite.
    """
    file = model.file
    has_norms, num_rows, num_columns, num_codes = file.numbers(_MATRIX)
    model.check_matrix(num_rows, num_columns)
    if num_codes < num_rows or num_codes % num_rows:
        raise damaged(f"got {num_codes} codes for {num_rows} rows, expected a multiple of the rows")
    num_groups = num_codes // num_rows
    codes = file.array("u1", num_codes, f"a matrix of {num_codes} codes").reshape(num_rows, num_groups)
    values = _centroids(file, num_columns, num_groups)
    norm_codes, norms = None, None
    if has_norms:
        norm_codes = file.array("u1", num_rows, f"a list of the norms of {num_rows} rows")
        norms = _centroids(file, 1, 1).reshape(_CODES)
    unused = values.shape[0] * values.shape[2] - num_columns
    table = PackedDPQ(codes, values, num_groups, row_scale_codes=norm_codes, row_scales=norms, unused_columns=unused)
    # All rows stay, so their tokens must stay: a word that would be left out raises.
    errors: EncodingErrors = "replace" if reading.encoding_errors == "replace" else "strict"
    tokens = [token or "" for token in model.tokens(errors)]
    facts = SourceFacts((), parts_left_out(model, num_columns))
    return PackedVectors(table, tokens, "vectors", model.path, facts)


def _centroids(file: FastTextFile, num_columns: int, num_groups: int) -> NDArray[np.float32]:
    """Return the centroids of a quantiser [D, 256, s]; those of the last group are padded with zeros."""
    got = file.numbers(_QUANTISER)
    step = got[2]
    last = num_columns - (num_groups - 1) * step
    if got != (num_columns, num_groups, step, last) or not 0 < last <= step:
        raise damaged(
            f"got a quantiser of {got[0]} columns in {got[1]} groups of {step}, the last of {got[3]}, expected "
            f"{num_columns} columns in {num_groups} groups"
        )
    stored = file.array("<f4", num_columns * _CODES, f"a list of the centroids of {num_columns} columns")
    if not np.isfinite(stored).all():
        raise damaged("a centroid contains NaN or an infinity")
    width = min(step, num_columns)  # a single group may be declared wider than the matrix
    values = np.zeros((num_groups, _CODES, width), np.float32)
    wide = (num_groups - 1) * _CODES * width
    values[:-1] = stored[:wide].reshape(num_groups - 1, _CODES, width)
    values[-1, :, :last] = stored[wide:].reshape(_CODES, last)
    return values
