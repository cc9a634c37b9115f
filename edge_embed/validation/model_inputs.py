"""Random inputs for the whole model: ids below the number of rows of the smallest table they reach, the rest as given.

Inputs that hold ids are found by a walk from every lookup in the graph up to the inputs. Other inputs
(masks, lengths, features, states) draw their values at random from those of the example.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx

from edge_embed.errors import one_line
from edge_embed.lowering.graph import CALLS
from edge_embed.program.program import Program, ProgramInput, Sizes, array, spelled_sizes
from edge_embed.validation import ids as random_ids
from edge_embed.validation.bag_offsets import bag_offsets
from edge_embed.validation.pair.cached_sizes import cached_steps, summed
from edge_embed.validation.pair.module import FileModule
from edge_embed.validation.top_scores import Score, scores_of_ids

_DENSE = {
    torch.ops.aten.embedding.default,
    torch.ops.aten.embedding_bag.default,
    torch.ops.aten.embedding_bag.padding_idx,
}
# Nodes that depend on the shape of a tensor only pass no ids on; sums over a mask are positions.
_WITHOUT_IDS = frozenset(
    "sym_size sym_numel _shape_as_tensor zeros_like ones_like full_like empty_like new_zeros new_ones new_full "
    "cumsum".split()
)
_SIZES = (3, 7, 2, 5)
_LARGEST_SIZE = 16  # of a dynamic dimension in additional cases


@dataclass(frozen=True)
class ModelCase:
    """One set of inputs, with the outputs of the training form.

    Attributes:
        name: name in words.
        inputs: one tensor per input, or array of texts.
        outputs: one tensor per output, or array of texts.
        scores: the scores of ids, by position of each output that holds ids of the highest logits.
    """

    name: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    scores: Mapping[int, Score] = field(default_factory=dict)

    def feeds(self, program: Program) -> dict[str, NDArray[Any]]:
        """Return the inputs as runtimes accept them."""
        return {declared.name: array(value) for declared, value in zip(program.inputs, self.inputs, strict=True)}


def make_cases(
    program: Program, random: np.random.Generator, more: int = 0, fixed: Sequence[Sizes] = ()
) -> tuple[list[ModelCase], list[str]]:
    """Return inputs of several sizes, and descriptions of those on which the training form itself does not run.

    Args:
        program: the training form.
        random: source of sizes and values.
        more: number of cases of random sizes beyond the usual ones.
        fixed: the only sizes that the dynamic dimensions may have; by default any.
    """
    cases: list[ModelCase] = []
    left_out: list[str] = []
    bounds = id_bounds(program)
    plans = _fixed_plans(program, fixed) if fixed else _plans(program)
    for plan in (*plans, *_more_plans(program, random, more, fixed)):
        try:
            cases.append(run_case(program, plan.name, plan.draw(program, random, bounds)))
        except Exception as error:  # the model's own limits: lengths that it refuses, ids that it computes with
            left_out.append(f"{plan.name}: {one_line(error)}")
            # Ids that the model shifts before a lookup are only valid with the values of the example.
            again = replace(plan, name=f"{plan.name} from the example")
            with suppress(Exception):
                cases.append(run_case(program, again.name, again.draw(program, random, {})))
    return cases, left_out


def large_case(program: Program, random: np.random.Generator, ids: int) -> ModelCase | None:
    """Return inputs of about ``ids`` ids, without outputs of the training form, which can take long to compute.

    Returns None if an input holds anything but ids, or if all sizes are fixed.
    """
    bounds, sizes = id_bounds(program), program.example_sizes
    if len(bounds) < len(program.inputs) or not sizes:
        return None
    size = round(ids ** (1 / len(sizes)))
    plan = _Plan(f"{ids} ids", "uniform", dict.fromkeys(sizes, size))
    return ModelCase(plan.name, plan.draw(program, random, bounds), ())


def id_bounds(program: Program) -> dict[str, int]:
    """Return the number of rows of the smallest table that each input reaches, for inputs that reach a lookup."""
    if isinstance(program.module, FileModule):
        return dict(program.module.id_rows)
    integers = {declared.name for declared in program.inputs if declared.holds_integers}
    bounds: dict[str, int] = {}
    for node in program.module.graph.nodes:
        found = _look_up(program, node)
        if found is None:
            continue
        ids, rows = found
        for origin in _origins(ids):
            if str(origin.target) in integers:
                bounds[str(origin.target)] = min(rows, bounds.get(str(origin.target), rows))
    return bounds


def _look_up(program: Program, node: fx.Node) -> tuple[fx.Node, int] | None:
    """Return the ids that a node looks up and the number of rows of its table, or None."""

    def weight(item: fx.Node) -> Tensor:
        return program.module.weight(str(item.target))

    if node.target in CALLS and CALLS[node.target].use in ("rows", "bag"):
        call = CALLS[node.target]
        table: Any = fx.node.map_arg(node.args[call.leading :], weight)
        ids, rows = node.args[0], call.form.size(*table)[0]
    elif node.target in _DENSE and isinstance(node.args[0], fx.Node) and node.args[0].op == "get_attr":
        ids, rows = node.args[1], weight(node.args[0]).shape[0]
    else:
        return None
    return (ids, rows) if isinstance(ids, fx.Node) else None


def _origins(node: fx.Node) -> Iterator[fx.Node]:
    """Yield the inputs of the model whose values reach ``node``."""
    waiting, seen = [node], set()
    while waiting:
        current = waiting.pop()
        if current in seen or _is_without_ids(current):
            continue
        seen.add(current)
        if current.op == "placeholder":
            yield current
        waiting += current.all_input_nodes


def _is_without_ids(node: fx.Node) -> bool:
    packet = getattr(node.target, "overloadpacket", None)
    return getattr(packet, "__name__", "") in _WITHOUT_IDS


@dataclass(frozen=True)
class _Plan:
    """Inputs to draw.

    Attributes:
        name: name in words.
        distribution: distribution of the ids; None selects the example inputs.
        sizes: sizes of the dynamic dimensions.
    """

    name: str
    distribution: random_ids.Distribution | None
    sizes: Sizes

    def draw(self, program: Program, random: np.random.Generator, bounds: Mapping[str, int]) -> tuple[Any, ...]:
        if self.distribution is None:
            return program.example_inputs
        inputs: list[Any] = []
        shapes = {declared.name: self._shape(declared) for declared in program.inputs}
        offsets = bag_offsets(program)
        for declared, example in zip(program.inputs, program.example_inputs, strict=True):
            shape = shapes[declared.name]
            if declared.name in offsets:
                places = offsets[declared.name].draw(random, *shape, *shapes[offsets[declared.name].ids])
                inputs.append(torch.from_numpy(places).to(declared.dtype))
            elif declared.name in bounds:
                ids: Any = random_ids.draw(random, self.distribution, bounds[declared.name], shape)
                inputs.append(torch.from_numpy(ids).to(declared.dtype))
            elif declared.holds_texts:
                assert isinstance(program.module, FileModule)  # no other model accepts texts
                inputs.append(program.module.texts.draw(random, shape))
            elif example.numel() == 0:
                inputs.append(torch.ones(shape, dtype=declared.dtype))
            else:
                chosen = torch.from_numpy(random.integers(0, example.numel(), shape, np.int64))
                inputs.append(example.reshape(-1)[chosen])
        return tuple(inputs)

    def _shape(self, declared: ProgramInput) -> tuple[int, ...]:
        return tuple(self.sizes[size] if isinstance(size, str) else size for size in declared.shape)


def _plans(program: Program) -> Iterator[_Plan]:
    example = program.example_sizes
    if all(map(math.prod, (value.shape for value in program.example_inputs))):  # some runtimes crash on empty batches
        yield _Plan("the example", None, example)
    same = {name: max(1, size) for name, size in example.items()}
    other = summed({name: _SIZES[index % len(_SIZES)] for index, name in enumerate(example)})
    yield _Plan(f"uniform ids{_words(same)}", "uniform", same)
    for sizes in [*cached_steps(other)] or [other]:
        yield _Plan(f"Zipf ids{_words(sizes)}", "zipf", sizes)
    ones = summed(dict.fromkeys(example, 1))
    if ones != same:
        yield _Plan(f"uniform ids{_words(ones)}", "uniform", ones)


def _fixed_plans(program: Program, fixed: Sequence[Sizes]) -> Iterator[_Plan]:
    example = program.example_sizes
    if example in fixed:
        yield _Plan("the example", None, example)
    for sizes in fixed:
        yield _Plan(f"uniform ids{_words(sizes)}", "uniform", sizes)
        yield _Plan(f"Zipf ids{_words(sizes)}", "zipf", sizes)


def _more_plans(program: Program, random: np.random.Generator, count: int, fixed: Sequence[Sizes]) -> Iterator[_Plan]:
    """Yield cases of random sizes, or of each fixed size in turn; every second case of a kind has Zipf ids."""
    distributions: tuple[random_ids.Distribution, ...] = ("uniform", "zipf")
    for number in range(count):
        rounds, at = divmod(number, len(fixed) or 1)
        sizes = fixed[at] if fixed else _random_sizes(program, random)
        yield _Plan(f"random case {number}{_words(sizes)}", distributions[rounds % 2], sizes)


def _random_sizes(program: Program, random: np.random.Generator) -> Sizes:
    sizes = summed({name: int(random.integers(1, _LARGEST_SIZE + 1)) for name in program.example_sizes})
    steps = [*cached_steps(sizes)]
    return steps[random.integers(len(steps))] if steps else sizes


def _words(sizes: Sizes) -> str:
    return f", {spelled_sizes(sizes)}" if sizes else ""


def run_case(program: Program, name: str, inputs: tuple[Any, ...]) -> ModelCase:
    """Run the training form on one set of inputs; its exceptions propagate."""
    return ModelCase(name, inputs, program.run(*inputs), scores_of_ids(program, inputs))
