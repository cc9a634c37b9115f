"""Lookups by any operator, in any table that is computed from weights alone, are found and replaced."""

import functools
from collections.abc import Callable, Collection

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from edge_embed.compression.packed_nodes import with_packed
from edge_embed.errors import BadInputError
from edge_embed.fitting import low_rank
from edge_embed.fitting.fitted_table import Fitted, Stored
from edge_embed.lowering.dense_tables import program_tables
from edge_embed.lowering.graph import lower_program
from edge_embed.program.load import capture_program
from edge_embed.program.program import Program

N, D = 40, 6
IDS = torch.tensor([[1, 3, 39], [7, 7, 0]])
OTHERS = torch.tensor([[5, 0, 2, 39]]), torch.empty(0, 3, dtype=torch.int64)
Use = Callable[["Weights", Tensor], Tensor]


class Weights(nn.Module):
    """A model of parameters and buffers with a given use."""

    def __init__(self, use: Use) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.turned = nn.Parameter(torch.randn(N, D)), nn.Parameter(torch.randn(D, N))
        self.more, self.scale = nn.Parameter(torch.randn(3, D)), nn.Parameter(torch.rand(N, 1))
        self.stack, self.parts = nn.Parameter(torch.randn(1, N, D)), nn.Parameter(torch.randn(2, N, 3))
        self.down, self.up = nn.Parameter(torch.randn(2, D)), nn.Parameter(torch.randn(N, 2))
        self.bias, self.use = nn.Parameter(torch.randn(D)), use
        self.register_buffer("vectors", torch.randn(N, D))
        self.register_buffer("small", torch.randint(-9, 9, (N, D), dtype=torch.int8))

    def forward(self, ids: Tensor) -> Tensor:
        return self.use(self, ids)


def exact(program: Program) -> dict[str, Stored]:
    """Return a table with the same rows, up to rounding, for each table that can be replaced."""
    tables = [table for table in program_tables(program) if table.looks_up and not table.reason]
    fitted = {table.name: Fitted(low_rank.fit(table.weight, min(table.weight.shape), None)) for table in tables}
    return {name: each.stored("beside") for name, each in fitted.items()}


def hot(ids: Tensor) -> Tensor:
    return functional.one_hot(ids, N).float()


LOOKUPS: dict[str, Use] = {
    "index": lambda model, ids: model.words[ids],
    "index of rows and columns": lambda model, ids: model.words[ids, :],
    "index of a column of ids": lambda model, ids: model.words[ids[:, 0]],
    "index of int32": lambda model, ids: model.words[ids.int()],
    "index of columns": lambda model, ids: model.turned[:, ids],
    "index behind one": lambda model, ids: model.stack[:, ids],
    "index of the first": lambda model, ids: model.stack[0][ids],
    "index of matrices": lambda model, ids: model.parts.transpose(0, 1)[ids],
    "index in the middle": lambda model, ids: model.parts[:, ids],
    "index of a new axis": lambda model, ids: model.words[None][:, ids],
    "index from the end": lambda model, ids: model.words[ids - N],
    "index of what is clamped": lambda model, ids: model.words[ids.clamp(min=0)],
    "index_select": lambda model, ids: model.words.index_select(0, ids.flatten()).view(*ids.shape, D),
    "index_select of columns": lambda model, ids: model.turned.index_select(1, ids.flatten()),
    "index_select from the last": lambda model, ids: model.turned.index_select(-1, ids.flatten()),
    "index_select of one id": lambda model, ids: model.words.index_select(0, ids.sum() % N),
    "gather": lambda model, ids: model.words.gather(0, ids.flatten()[:, None].expand(-1, D)),
    "gather in batches": lambda model, ids: model.words[None].expand(ids.shape[0], N, D).gather(
        1, ids[..., None].expand(-1, -1, D)
    ),
    "gather from copies": lambda model, ids: model.words[None].expand(1, -1, -1).gather(
        1, ids.flatten()[None, :, None].expand(-1, -1, D)
    ),
    "take_along_dim": lambda model, ids: torch.take_along_dim(model.words, ids.flatten()[:, None], 0),
    "one_hot": lambda model, ids: hot(ids) @ model.words,
    "one_hot of rows": lambda model, ids: torch.mm(hot(ids.flatten()), model.words),
    "one_hot as a view": lambda model, ids: torch.mm(hot(ids).view(-1, N), model.words),
    "one_hot linear": lambda model, ids: functional.linear(hot(ids), model.turned, model.bias),
    "one_hot einsum": lambda model, ids: torch.einsum("bsn,nd->bsd", hot(ids), model.words),
    "one_hot of a transposed table": lambda model, ids: hot(ids) @ model.turned.t(),
    "equal": lambda model, ids: (ids[..., None] == torch.arange(N)).float() @ model.words,
    "equal to few": lambda model, ids: (torch.arange(N) == (ids - 2)[..., None]).float() @ model.words,
    "eye": lambda model, ids: torch.eye(N)[ids] @ model.words,
    "buffer": lambda model, ids: model.vectors[ids],
}  # fmt: skip

TABLES: dict[str, Callable[[Weights], Tensor]] = {
    "cat": lambda model: torch.cat([model.words, model.more]),
    "cat of three": lambda model: torch.cat([model.more, model.words, model.vectors]),
    "slice": lambda model: torch.cat([model.more, model.words])[3:],
    "chunk": lambda model: torch.cat([model.words, model.words * 2]).chunk(2)[1],
    "scaled": lambda model: model.words * model.scale,
    "adapted": lambda model: model.words + 0.5 * model.up @ model.down,
    "normalised": lambda model: functional.normalize(model.words, dim=-1),
    "transposed": lambda model: model.turned.t(),
    "rounded": lambda model: model.words.half().float(),
    "copied": lambda model: model.words.detach().clone().contiguous().view(N, D),
    "reshaped": lambda model: model.parts.reshape(N, D),
    "of integers": lambda model: model.small.float() * model.scale,
    "permuted": lambda model: model.words[torch.arange(N).flip(0)],
    "padded": lambda model: functional.pad(model.words, (0, 0, 0, 1)),
}


@functools.cache
def looked_up(use: str) -> tuple[Program, dict[str, Stored], Program]:
    """Return a program of one of `LOOKUPS`, its packed tables, and the program with these tables."""
    program = capture_program(Weights(LOOKUPS[use]), IDS)
    stored = exact(program)
    return program, stored, with_packed(program, stored)


def _mostly_slow(cases: Collection[str], quick: Collection[str]) -> list[object]:
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]


QUICK_LOOKUPS = ("index", "index of columns", "index in the middle", "index_select", "gather in batches", "one_hot")


@pytest.mark.parametrize("use", _mostly_slow(LOOKUPS, QUICK_LOOKUPS))
def test_lookup_by_any_operator_is_packed(use: str) -> None:
    program, stored, small = looked_up(use)
    assert len(stored) == 1
    assert len(lower_program(small).tables) == 1
    for ids in (IDS, *OTHERS):
        torch.testing.assert_close(small.run(ids), program.run(ids), rtol=1e-4, atol=1e-5)
    heaviest = max(weight.nbytes for weight in (*small.module.buffers(), torch.empty(0)))
    assert heaviest <= max(array.nbytes for table in stored.values() for array in table.arrays().values())


@pytest.mark.parametrize("made", _mostly_slow(TABLES, ("cat", "adapted", "of integers")))
def test_table_computed_from_weights_is_packed(made: str) -> None:
    def use(model: Weights, ids: Tensor) -> Tensor:
        return functional.embedding(ids, TABLES[made](model)) + TABLES[made](model)[ids]

    program = capture_program(Weights(use), IDS)
    (table,) = program_tables(program)
    assert (table.uses, table.looks_up, table.reason) == (2, True, "")
    torch.testing.assert_close(table.weight, TABLES[made](Weights(use)).detach())
    small = with_packed(program, exact(program))
    for ids in (IDS, *OTHERS):
        torch.testing.assert_close(small.run(ids), program.run(ids), rtol=1e-4, atol=1e-5)
    assert len(lower_program(small).tables) == 1


SINGLE: dict[str, Use] = {
    "index": LOOKUPS["index"],
    "index of columns": lambda model, ids: model.turned[:, ids],
    "index of rows and columns": lambda model, ids: model.words[ids, :],
    "index of int32": lambda model, ids: model.words[ids.int()],
    "item": lambda model, ids: model.words[ids.item()],
    "select from the end": lambda model, ids: torch.select(model.words, -2, ids),
    "embedding": lambda model, ids: functional.embedding(ids, model.words * 2),
}


@pytest.mark.parametrize("use", SINGLE)
def test_single_id_of_rank_0_gives_row(use: str) -> None:
    module = Weights(SINGLE[use])
    program = capture_program(module, torch.tensor(3))
    small = with_packed(program, exact(program))
    for ids in (7, 0, N - 1, *(() if use == "embedding" else (-1, -N))):
        (got,), (expected,) = small.run(torch.tensor(ids)), program.run(torch.tensor(ids))
        assert got.shape == (D,)
        torch.testing.assert_close(expected, module(torch.tensor(ids)))
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    for bad in (N, -N - 1) if use == "index" else ():
        with pytest.raises(BadInputError, match="out of range"):
            small.run(torch.tensor(bad))
    assert len(lower_program(small).tables) == 1


def test_number_in_vector_of_one_gives_row() -> None:
    program = capture_program(Weights(lambda model, ids: model.words[ids.item()]), torch.tensor([3]), {"ids": {}})
    small = with_packed(program, exact(program))
    torch.testing.assert_close(small.run(torch.tensor([7])), program.run(torch.tensor([7])), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "use", [lambda model, ids: model.words[: ids.item()], lambda model, ids: model.words[3:4] * ids.item()]
)
def test_number_not_used_for_row_is_refused_with_remedy(use: Use) -> None:
    with pytest.raises(BadInputError, match=r"another use than a row w\[id\].*functional\.embedding\(ids, w\)"):
        capture_program(Weights(use), torch.tensor(3))


@pytest.mark.parametrize("ids", [-1, -N])
def test_negative_id_counts_from_end(ids: int) -> None:
    program, _, small = looked_up("index")
    given = torch.full((1, 1), ids)
    torch.testing.assert_close(small.run(given), program.run(given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("use", ["index", "one_hot", "index_select", "gather"])
@pytest.mark.parametrize("ids", [N, -N - 1])
def test_id_out_of_range_is_refused(use: str, ids: int) -> None:
    with pytest.raises(BadInputError, match="out of range"):
        looked_up(use)[2].run(torch.full((1, 1), ids))


def test_id_outside_comparison_gives_zeros() -> None:
    program = capture_program(Weights(LOOKUPS["equal"]), IDS)
    given = torch.tensor([[-1, N, 3]])
    found = with_packed(program, exact(program)).run(given)[0]
    assert not found[0, :2].any()
    torch.testing.assert_close(found, program.run(given)[0], rtol=1e-4, atol=1e-5)


OUTPUT_LAYERS: dict[str, Use] = {
    "of a computed table": lambda model, ids: functional.embedding(ids, table := model.words * model.scale) @ table.t(),
    "of a transposed table": lambda model, ids: model.turned[:, ids[0]].t() @ model.turned,
    "linear": lambda model, ids: functional.linear(model.words[ids], model.words),
    "einsum": lambda model, ids: torch.einsum("bsd,nd->bsn", model.words[ids], model.words),
    "addmm": lambda model, ids: torch.addmm(model.scale[:, 0], hot(ids[0]) @ model.words, model.words.t()),
    "twice": lambda model, ids: functional.linear(hot(ids) @ model.words + model.words[ids], model.words),
}


@pytest.mark.parametrize("use", _mostly_slow(OUTPUT_LAYERS, ("of a computed table", "twice")))
def test_output_layer_uses_packed_table(use: str) -> None:
    program = capture_program(Weights(OUTPUT_LAYERS[use]), IDS)
    (table,) = (table for table in program_tables(program) if table.looks_up)
    assert table.uses == (3 if use == "twice" else 2)
    small = with_packed(program, exact(program))
    for ids in (IDS, OTHERS[0]):
        torch.testing.assert_close(small.run(ids), program.run(ids), rtol=1e-4, atol=1e-4)
    assert len(lower_program(small).tables) == 1


NORMS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "weight_norm": lambda layer: parametrizations.weight_norm(layer, dim=0),
    "weight_norm of all": lambda layer: parametrizations.weight_norm(layer, dim=None),
    "spectral_norm": parametrizations.spectral_norm,
    "old weight_norm": nn.utils.weight_norm,
    "old spectral_norm": nn.utils.spectral_norm,
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("norm", _mostly_slow(NORMS, ("weight_norm", "old weight_norm")))
def test_normed_layer_is_packed_under_its_own_name(norm: str) -> None:
    torch.manual_seed(0)
    model = nn.ModuleDict({"words": NORMS[norm](nn.Embedding(N, D)), "layer": nn.Linear(D, 2)}).eval()
    model.forward = lambda ids: model["layer"](model["words"](ids))  # type: ignore[method-assign]
    program = capture_program(model, IDS)
    (table,) = (table for table in program_tables(program) if table.looks_up)
    assert (table.name, table.reason) == ("words", "")
    small = with_packed(program, exact(program))
    torch.testing.assert_close(small.run(IDS), program.run(IDS), rtol=1e-4, atol=1e-5)
    assert sorted(lower_program(small).tables) == ["words"]


def test_tables_of_one_weight_are_packed_separately() -> None:
    program = capture_program(Weights(lambda model, ids: model.words[:30][ids % 30] + model.words[30:][ids % 10]), IDS)
    stored = exact(program)
    assert sorted(stored) == ["words", "words_2"]
    for some in (stored, {"words": stored["words"]}):
        small = with_packed(program, some)
        torch.testing.assert_close(small.run(IDS), program.run(IDS), rtol=1e-4, atol=1e-5)
        assert not any(tuple(weight.shape) == (N, D) for weight in small.module.buffers())


def test_bags_of_computed_table_are_packed() -> None:
    def use(model: Weights, ids: Tensor) -> Tensor:
        return functional.embedding_bag(ids, torch.cat([model.words, model.more]), mode="mean")

    program = capture_program(Weights(use), IDS)
    small = with_packed(program, exact(program))
    torch.testing.assert_close(small.run(IDS), program.run(IDS), rtol=1e-4, atol=1e-5)


LEFT: dict[str, tuple[Use, str]] = {
    "mask": (lambda model, ids: model.words[ids.new_ones(N).bool()], "aten.index.Tensor"),
    "numbers": (lambda model, ids: model.words[ids, ids % D], "aten.index.Tensor"),
    "take": (lambda model, ids: torch.take(model.words, ids), "aten.take.default"),
    "numbers of rows": (lambda model, ids: model.words.gather(0, ids.repeat(1, 2)), "aten.gather.default"),
    "slice": (lambda model, ids: model.words[: ids.shape[1]], "aten.slice.Tensor"),
}


def test_weights_without_lookups_are_not_tables() -> None:
    def use(model: Weights, ids: Tensor) -> tuple[Tensor, ...]:
        return tuple(taken(model, ids) for taken, _ in LEFT.values())

    assert program_tables(capture_program(Weights(use), IDS)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("use", LEFT)
def test_table_with_other_use_than_lookup_is_left_with_reason(use: str) -> None:
    taken, operator = LEFT[use]
    both = capture_program(Weights(lambda model, ids: (taken(model, ids), model.words[ids])), IDS)  # type: ignore[arg-type,return-value]
    (table,) = program_tables(both)
    for part in (operator, "words", "960 bytes", "look"):
        assert part in table.reason
