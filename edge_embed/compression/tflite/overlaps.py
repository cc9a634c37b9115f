"""Check that the parts of a flatbuffer do not overlap, before they are copied out of it."""

from collections.abc import Iterator
from typing import Any

_SHARED = 4  # names and sizes may be shared by many tensors: the largest factor


def check_parts(model: Any, file_bytes: int) -> None:
    """Sum the sizes that the parts of a packed model declare.

    Raises:
        ValueError: the sum is far larger than the file.
    """
    left = _SHARED * file_bytes
    for nbytes in _sizes(model):
        left -= nbytes
        if left < 0:
            raise ValueError("its parts overlap")


def _sizes(model: Any) -> Iterator[int]:
    """Yield the bytes of vectors, outer ones first: a vector of tables has 4 bytes per table."""
    counts = (model.SubgraphsLength(), model.BuffersLength(), model.OperatorCodesLength(), model.MetadataLength())
    yield 4 * (sum(counts) + model.SignatureDefsLength())
    yield 4 * (model.ExternalBuffersLength() + model.ExternalBufferGroupsLength())
    for at in range(model.BuffersLength()):
        yield model.Buffers(at).DataLength()
    for at in range(model.SignatureDefsLength()):
        signature = model.SignatureDefs(at)
        yield 4 * (signature.InputsLength() + signature.OutputsLength())
    for at in range(model.SubgraphsLength()):
        yield from _of_subgraph(model.Subgraphs(at))


def _of_subgraph(graph: Any) -> Iterator[int]:
    yield 4 * (graph.TensorsLength() + graph.OperatorsLength() + graph.InputsLength() + graph.OutputsLength())
    for at in range(graph.TensorsLength()):
        tensor = graph.Tensors(at)
        yield 4 * (tensor.ShapeLength() + tensor.ShapeSignatureLength()) + len(tensor.Name() or b"")
        if (scales := tensor.Quantization()) is not None:
            yield 4 * (scales.ScaleLength() + scales.MinLength() + scales.MaxLength()) + 8 * scales.ZeroPointLength()
    for at in range(graph.OperatorsLength()):
        operator = graph.Operators(at)
        yield 4 * (operator.InputsLength() + operator.OutputsLength() + operator.IntermediatesLength())
        yield operator.CustomOptionsLength()
