"""A model of one dense table, which looks rows up."""

import torch
from torch import fx

from edge_embed.importers.vectors import Vectors
from edge_embed.program.program import Program, ProgramInput, ProgramModule

_EXAMPLE = (2, 8)  # ids


def program_of(vectors: Vectors) -> Program:
    """``ids`` int64 [batch, sequence] -> ``vectors`` [batch, sequence, d], as a captured ``nn.Embedding``.

    Raises:
        BadInputError: the table has a name that no layer can have.
    """
    weight = f"{vectors.name}.weight"
    graph = fx.Graph()
    ids = graph.placeholder("ids")
    rows = graph.call_function(torch.ops.aten.embedding.default, (graph.get_attr(weight), ids))
    graph.output((rows,))
    generator = torch.Generator().manual_seed(0)
    return Program(
        ProgramModule(graph, {weight: vectors.table}),
        (ProgramInput("ids", torch.int64, ("batch", "sequence")),),
        ("vectors",),
        (torch.randint(len(vectors.table), _EXAMPLE, generator=generator),),
        vectors.tokens,
        source=vectors.source,
    )
