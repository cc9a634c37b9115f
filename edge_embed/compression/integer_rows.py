"""What needs no method: rows of 8 or 4 bits, each with its own scale. Compressed tables are compared with them.

They are measured only, nothing is made of them.

    C_i = s_i round(E_i / s_i)          s_i = max_j |E_ij| / (2^(b - 1) - 1), float32
"""

from torch import Tensor

from edge_embed.compression.dense import DenseTable, row_weights
from edge_embed.compression.fidelity import nearness, sample
from edge_embed.report.compressed import Trial

_BITS = (8, 4)
_MEASURED = 10_000  # rows
_SCALE_BYTES = 4


def integer_rows(table: DenseTable, padding_idx: int | None = None, counts: Tensor | None = None) -> tuple[Trial, ...]:
    """How near and how small rows of 8 and of 4 bits would be.

    Args:
        table: [n, d].
        padding_idx: it counts nowhere.
        counts: how often each row comes up, numbers >= 0 [n].
    """
    ids = sample(table.num_embeddings, _MEASURED, seed=0)
    rows = table.rows(ids)
    weights = row_weights(counts, table.num_embeddings, padding_idx)[ids]
    trials = []
    for bits in _BITS:
        nbytes = table.num_embeddings * (-(-bits * table.embedding_dim // 8) + _SCALE_BYTES)
        trials.append(Trial("rows", f"int{bits}", nbytes, *nearness(rows, _rounded(rows, bits), weights)))
    return tuple(trials)


def _rounded(rows: Tensor, bits: int) -> Tensor:
    scales: Tensor = rows.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
    scales = scales.float().double().masked_fill(scales == 0, 1)
    return scales * (rows / scales).round()
