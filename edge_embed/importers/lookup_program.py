"""Program of a single table that looks up rows."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, fx

from edge_embed.importers.word_vectors import PackedVectors, Vectors
from edge_embed.lowering.dpq import DPQ
from edge_embed.packed.stored_names import stored_name
from edge_embed.program.program import Program, ProgramInput, ProgramModule

_EXAMPLE = (2, 8)  # ids

LookUp = Callable[[fx.Graph, fx.Node, list[fx.Node]], fx.Node]


def program_of(vectors: Vectors | PackedVectors) -> Program:
    """Return a program ``ids`` int64 [batch, sequence] -> ``vectors`` [batch, sequence, d].

    Args:
        vectors: a dense table becomes a captured ``nn.Embedding``, a packed one its frozen layer.

    Raises:
        BadInputError: the table has a name that no layer can have.
    """
    if isinstance(vectors, Vectors):
        return _program(vectors, {"weight": vectors.table}, len(vectors.table), _embedding)
    packed = vectors.table

    def look_up(graph: fx.Graph, ids: fx.Node, tensors: list[fx.Node]) -> fx.Node:
        return graph.call_function(DPQ.operators(packed).rows, (ids, *DPQ.arguments(packed, tensors)))

    tensors = {name: torch.from_numpy(array) for name, array in packed.tensors().items()}
    return _program(vectors, tensors, packed.num_embeddings, look_up)


def _embedding(graph: fx.Graph, ids: fx.Node, tensors: list[fx.Node]) -> fx.Node:
    return graph.call_function(torch.ops.aten.embedding.default, (*tensors, ids))


def _program(
    vectors: Vectors | PackedVectors, tensors: Mapping[str, Tensor], num_rows: int, look_up: LookUp
) -> Program:
    weights = {stored_name(vectors.name, name): tensor for name, tensor in tensors.items()}
    graph = fx.Graph()
    ids = graph.placeholder("ids")
    graph.output((look_up(graph, ids, [graph.get_attr(name) for name in weights]),))
    generator = torch.Generator().manual_seed(0)
    return Program(
        ProgramModule(graph, weights),
        (ProgramInput("ids", torch.int64, ("batch", "sequence")),),
        ("vectors",),
        (torch.randint(num_rows, _EXAMPLE, generator=generator),),
        vectors.tokens,
        source=vectors.source,
        facts=vectors.facts,
    )
