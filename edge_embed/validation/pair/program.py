"""Two files as a model for validation: a program that a runtime executes, and its packed tables."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from edge_embed.fitting.fitted_table import Stored
from edge_embed.lowering.graph import METHODS, LoweredProgram
from edge_embed.packed.stored_names import stored_name
from edge_embed.program.program import Program, ProgramInput
from edge_embed.validation.pair.cached_sizes import with_state_sizes
from edge_embed.validation.pair.inputs import examples
from edge_embed.validation.pair.module import FileModule, Run
from edge_embed.validation.pair.texts import Texts

_SECONDS = 20  # limit for the search of sizes that a model accepts


@dataclass
class PairProgram(Program):
    """The original with the stored rows in place of its own.

    Attributes:
        original: the original itself, with equal inputs and outputs.
        pair: the two files with the results of comparing them.
    """

    original: Program = None  # type: ignore[assignment]  # fields after fields with defaults need one
    pair: Any = None


@dataclass(frozen=True)
class Ports:
    """Inputs and outputs of an original.

    Attributes:
        inputs: the declared inputs.
        output_names: names of the outputs, in their order.
        id_rows: rows of the smallest table that an input reaches, for inputs that hold ids.
        texts: the texts to draw inputs from.
        likely_sizes: sizes of inputs that the model may fix without declaring them.
    """

    inputs: tuple[ProgramInput, ...]
    output_names: tuple[str, ...]
    id_rows: Mapping[str, int]
    texts: Texts
    likely_sizes: Sequence[int]


def pair_program(
    ports: Ports,
    uses: Sequence[tuple[str, str]],
    tables: Mapping[str, Stored],
    original: tuple[Path, Run],
    reconstructed: Run,
    pair: Any,
) -> tuple[PairProgram, LoweredProgram]:
    """Return a pair of files as a program and its lowered form.

    Args:
        ports: inputs and outputs of the original.
        uses: table and use of the nodes over packed tables.
        tables: packed tables by name.
        original: the file and a function that runs it.
        reconstructed: function that runs the original with the stored rows.
        pair: the two files with the results of comparing them.
    """
    path, run = original
    names = [declared.name for declared in ports.inputs]
    module = FileModule(*_uses_graph((), {}), names, run, ports.id_rows, ports.texts)
    first, module.texts = _first_example(module, ports)
    inputs = with_state_sizes(ports.inputs, first)
    dense = Program(module, inputs, ports.output_names, first, source=path)
    module = FileModule(*_uses_graph(uses, tables), names, reconstructed, ports.id_rows, module.texts)
    program = PairProgram(module, inputs, ports.output_names, first, source=path, original=dense, pair=pair)
    return program, LoweredProgram(program, {name: stored.plain for name, stored in tables.items()}, ())


def _first_example(module: FileModule, ports: Ports) -> tuple[tuple[Any, ...], Texts]:
    """Return the first inputs that the original runs on, and the texts they are drawn from.

    If there are none, return the first inputs tried: validation reports why the model refuses them.
    """
    random = np.random.default_rng(0)
    choices = ports.texts.choices() if any(each.holds_texts for each in ports.inputs) else (ports.texts,)
    drawn = (examples(ports.inputs, ports.id_rows, texts, ports.likely_sizes, random) for texts in choices)
    first, end = None, time.monotonic() + _SECONDS
    for every in zip(*drawn, strict=True):
        for inputs, texts in zip(every, choices, strict=True):
            first = first or (inputs, texts)
            with suppress(Exception):  # any exception of the runtime
                module(*inputs)
                return inputs, texts
        if time.monotonic() > end:
            break
    assert first is not None
    return first


def _uses_graph(uses: Sequence[tuple[str, str]], tables: Mapping[str, Stored]) -> tuple[fx.Graph, dict[str, Tensor]]:
    """Build a graph with each use of each table once, as an operator over packed tensors."""
    graph, weights, results = fx.Graph(), dict[str, Tensor](), []
    for number, (name, use) in enumerate(dict.fromkeys(uses)):
        packed = tables[name].plain
        method = METHODS[packed.method]
        weights |= {
            stored_name(name, tensor): torch.from_numpy(np.array(value)) for tensor, value in packed.tensors().items()
        }
        leading = graph.placeholder(f"input_{number}")
        tensors = [graph.get_attr(stored_name(name, tensor)) for tensor in packed.tensors()]
        operator: Any = method.operators(packed).uses[use]  # type: ignore[index]
        results.append(graph.call_function(operator, (leading, *method.arguments(packed, tensors))))
    graph.output(tuple(results))
    return graph, weights


def original_of(program: Program) -> Program:
    """Return the program that a user's own metric is compared with: the original itself, if there is one."""
    return program.original if isinstance(program, PairProgram) else program
