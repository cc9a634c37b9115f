"""Session memory of DPQ: a copy of 4-bit codes in blocks of 16 rows, for output layers with AVX-512.

The layout is that of runtime_ops/kernels/dpq/blocks.h. The size is ceil(n / 16) * 16 * ceil(row_bytes / 4) * 4 bytes,
all or none of them; 0 for codes of other bits.
"""

from edge_embed.exporters.onnx.session_memory.method import SessionMemory
from edge_embed.packed.dpq_shape import DPQShape


def _blocks_bytes(shape: DPQShape) -> int:
    return -(-shape.num_embeddings // 16) * 16 * -(-shape.row_bytes // 4) * 4 if shape.bits == 4 else 0


def _taken(shape: DPQShape, limit: int | None) -> int:
    needed = _blocks_bytes(shape)
    return needed if limit is None or needed <= limit else 0


DPQ = SessionMemory(("logits", "topk"), _blocks_bytes, _taken)
