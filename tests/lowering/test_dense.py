"""Dense tables of a saved program: they are found with all uses, and replaced in a copy with the same results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edge_embed import workflow
from edge_embed.compression.packed_nodes import with_packed
from edge_embed.fitting import low_rank
from edge_embed.fitting.fitted_table import Fitted, Stored
from edge_embed.lowering.dense_tables import program_tables
from edge_embed.program.load import capture_program, rewrite_program
from edge_embed.program.program import Program

IDS = torch.tensor([[1, 3, 39], [7, 7, 0]])
OTHER_IDS = torch.tensor([[5, 0, 2, 39]])


class Uses(nn.Module):
    """A model of one table with a given use."""

    def __init__(self, use: Callable[..., Tensor], **options: object) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.use = nn.Embedding(40, 6, **options), use
        self.bias = nn.Parameter(torch.randn(40))

    def forward(self, ids: Tensor) -> Tensor:
        return self.use(self, ids)


def exact(program: Program, rotation: Tensor | None = None) -> dict[str, Stored]:
    """Return tables with the same rows up to rounding, with the rotation if given."""
    found = {}
    for table in program_tables(program):
        weight = table.weight if rotation is None else table.weight.float() @ rotation.T
        fitted = Fitted(low_rank.fit(weight, weight.shape[1], table.padding_idx), rotation)
        found |= {} if table.reason else {table.name: fitted.stored(table.rotates)}
    return found


USES: dict[str, Callable[..., Tensor]] = {
    "rows": lambda model, ids: model.words(ids),
    "linear": lambda model, ids: nn.functional.linear(model.words(ids), model.words.weight, model.bias),
    "matmul": lambda model, ids: model.words(ids) @ model.words.weight.t(),
    "transpose": lambda model, ids: model.words(ids) @ model.words.weight.transpose(0, 1),
    "mm": lambda model, ids: torch.mm(model.words(ids).flatten(0, 1), model.words.weight.T),
    "scaled": lambda model, ids: model.words(ids) * 3,  # as in Gemma
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("padding_idx", [None, 0])
def test_table_is_replaced_in_each_use(use: str, padding_idx: int | None) -> None:
    program = capture_program(Uses(USES[use], padding_idx=padding_idx), IDS)
    (table,) = program_tables(program)
    assert (table.name, table.padding_idx, table.reason) == ("words", padding_idx, "")
    assert table.uses == (1 if use in ("rows", "scaled") else 2)
    small = with_packed(program, exact(program))
    for ids in (IDS, OTHER_IDS):
        torch.testing.assert_close(small.run(ids), program.run(ids))
    assert not any(name.startswith("words.weight") for name, _ in small.module.named_buffers())
    torch.testing.assert_close(program.run(IDS)[0], Uses(USES[use], padding_idx=padding_idx)(IDS).detach())


ROTATION = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0))).Q


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("use", USES)
def test_rotation_is_stored_beside_table_in_each_use(use: str, dtype: torch.dtype) -> None:
    program = capture_program(Uses(USES[use], padding_idx=0).to(dtype), IDS)
    (table,) = program_tables(program)
    assert table.rotates == "beside"
    small = with_packed(program, exact(program, ROTATION))
    of_float16 = {"rtol": 1e-2, "atol": 3e-2} if dtype == torch.float16 else {}
    for ids in (IDS, OTHER_IDS):
        torch.testing.assert_close(small.run(ids), program.run(ids), **of_float16)
    assert torch.equal(small.module.weight("words.rotation"), ROTATION)


TAKERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(6, 3),
    "dropout": lambda: nn.Sequential(nn.Dropout(), nn.Linear(6, 3, bias=False)),
    "lstm": lambda: nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True),
    "no biases": lambda: nn.LSTM(6, 4, bidirectional=True, bias=False),
    "gru": lambda: nn.GRU(6, 4),
    "rnn": lambda: nn.RNN(6, 4, nonlinearity="relu"),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_rotation_is_folded_into_layer_of_rows(taker: str) -> None:
    torch.manual_seed(0)
    program = capture_program(nn.Sequential(nn.Embedding(40, 6), TAKERS[taker]()).eval(), IDS)
    table = next(table for table in program_tables(program) if table.looks_up)
    assert table.rotates == "folded"
    small = with_packed(program, {table.name: exact(program, ROTATION)[table.name]})
    for ids in (IDS, OTHER_IDS):
        torch.testing.assert_close(small.run(ids), program.run(ids))
    weights = [dict(each.module.named_buffers()) for each in (program, small)]
    assert not any("rotation" in name for name in weights[1])
    turned = [name for name, weight in weights[1].items() if not torch.equal(weight, weights[0].get(name, weight))]
    assert len(turned) == (2 if taker in ("lstm", "no biases") else 1)


@pytest.mark.parametrize("taker", TAKERS)
def test_weight_of_layer_of_rows_is_found(taker: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(40, 6), TAKERS[taker]()).eval()
    found = next(table for table in program_tables(capture_program(model, IDS)) if table.looks_up).next_weight
    layer = next(each for each in model[1].modules() if isinstance(each, (nn.Linear, nn.RNNBase)))
    names = [name for name, _ in layer.named_parameters() if name in ("weight", "weight_ih_l0", "weight_ih_l0_reverse")]
    assert found is not None
    assert torch.equal(found, torch.cat([layer.get_parameter(name) for name in names]))


def test_rotation_of_bags_is_folded_except_for_max() -> None:
    given = torch.tensor([1, 7, 5, 9, 7]), torch.tensor([0, 2, 3])

    class Bags(nn.Module):
        def __init__(self, mode: str) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.words, self.layer = nn.EmbeddingBag(40, 6, mode=mode), nn.Linear(6, 3)

        def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
            return self.layer(self.words(ids, offsets))  # type: ignore[no-any-return]

    for mode in ("sum", "mean"):
        program = capture_program(Bags(mode), given)
        assert program_tables(program)[0].rotates == "folded"
        assert program_tables(program)[0].next_weight.shape == (3, 6)
        stored = {"words": exact(program, ROTATION)["words"]}
        torch.testing.assert_close(with_packed(program, stored).run(*given), program.run(*given))
    largest = program_tables(capture_program(Bags("max"), given))[0]
    assert (largest.rotates, largest.next_weight) == ("never", None)


@pytest.mark.parametrize(
    ("others", "factor"),
    [
        (lambda model, ids: (model.layer(model.words(ids)), model.words(ids)), None),  # looked up twice
        (lambda model, ids: (model.layer(rows := model.words(ids)), rows.sum()), None),
        (lambda model, ids: model.layer(model.layer(model.words(ids))), 1),  # its weight has another use
        (lambda model, ids: nn.functional.linear(model.layer.weight, model.words(ids)[0]), None),  # rows as weight
        (lambda model, ids: model.layer(model.words(ids).relu()), None),
        (lambda model, ids: nn.functional.linear(model.words(ids), model.layer.weight * 2), 2),
    ],
    ids=["look-ups", "rows", "weight", "as weight", "relu", "computed"],
)
def test_rotation_is_not_folded_if_rows_or_layer_have_other_uses(
    others: Callable[..., Any], factor: int | None
) -> None:
    model = Uses(others)
    model.layer = nn.Linear(6, 6)
    program = capture_program(model, IDS)
    (table,) = (table for table in program_tables(program) if table.looks_up)
    assert table.rotates == "beside"
    assert (table.next_weight is None) == (factor is None)
    assert factor is None or torch.equal(table.next_weight, factor * model.layer.weight)
    small = with_packed(program, {"words": exact(program, ROTATION)["words"]})
    torch.testing.assert_close(small.run(OTHER_IDS), program.run(OTHER_IDS))


class Neighbours(nn.Module):
    """Two tables of one module, beside a buffer with the name of a packed tensor."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.left, self.right = nn.Parameter(torch.randn(40, 6)), nn.Parameter(torch.randn(30, 6))
        self.register_buffer("scale", torch.tensor(8.0))

    def forward(self, ids: Tensor) -> Tensor:
        rows = nn.functional.embedding(ids, self.left) * self.scale
        return rows + nn.functional.embedding(ids % 30, self.right)


def test_weights_of_one_module_are_separate_tables() -> None:
    program = capture_program(Neighbours(), IDS)
    names = [table.name for table in program_tables(program)]
    assert sorted(names) == ["left", "right"]
    packed = exact(program)
    for tables in (packed, {"right": packed["right"]}):
        small = with_packed(program, tables)
        torch.testing.assert_close(small.run(OTHER_IDS), program.run(OTHER_IDS))
        assert sorted(workflow.lower_program(small).tables) == sorted(tables)


class Scaled(nn.Embedding):
    """An embedding with a buffer beside its table, as in Gemma."""

    def __init__(self, name: str) -> None:
        super().__init__(40, 6)
        self.name = name
        self.register_buffer(name, torch.tensor(8.0))

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) * getattr(self, self.name)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["scale", "core_0"])
def test_buffers_beside_table_are_kept(name: str) -> None:
    torch.manual_seed(0)
    program = capture_program(nn.Sequential(Scaled(name)), IDS)
    (table,) = program_tables(program)
    assert table.name == "0"
    small = with_packed(program, exact(program))
    torch.testing.assert_close(small.run(OTHER_IDS), program.run(OTHER_IDS))
    assert len(workflow.lower_program(small).tables) == 1


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
def test_bags_are_replaced_with_same_results(mode: str, last: bool) -> None:
    bags = nn.EmbeddingBag(40, 6, mode=mode, padding_idx=7, include_last_offset=last)
    given = torch.tensor([1, 7, 5, 9, 7]), torch.tensor([0, 2, 5] if last else [0, 2, 3])
    program = capture_program(bags, given)
    small = with_packed(program, exact(program))
    torch.testing.assert_close(small.run(*given), program.run(*given))


def test_weighted_bags_are_replaced_with_same_results() -> None:
    bags = nn.EmbeddingBag(40, 6, mode="sum")
    given = torch.tensor([[1, 7], [5, 9]]), None, torch.rand(2, 2)
    program = capture_program(bags, given)
    inputs = given[0], given[2]
    small = with_packed(program, exact(program))
    torch.testing.assert_close(small.run(*inputs), program.run(*inputs))


@pytest.mark.parametrize(
    ("use", "taker"),
    [
        (lambda model, ids: model.words(ids) + model.words.weight.sum(), "aten.sum.default"),
        (lambda model, ids: model.words(ids)[:, :1] @ model.words.weight[:6], "aten.slice.Tensor"),
        (lambda model, ids: model.words(ids) @ model.words.weight.t().exp(), "aten.exp.default"),
        (lambda model, ids: model.words.weight[ids, ids % 6][..., None] + model.words(ids), "aten.index.Tensor"),
        (lambda model, ids: (model.words(ids), model.words.weight), "the output of the model"),
    ],
    ids=["sum", "slice", "exp", "index", "output"],
)
def test_table_with_other_uses_is_left_with_reason(use: Callable[..., Tensor], taker: str) -> None:
    (table,) = program_tables(capture_program(Uses(use), IDS))
    assert table.reason.startswith(f"{taker} uses it too")
    assert "words.weight, float32 [40, 6] of 960 bytes" in table.reason


def test_table_much_larger_than_its_weights_is_left_with_reason() -> None:
    program = capture_program(Uses(lambda model, ids: nn.functional.linear(*[model.words.weight] * 2)[ids]), IDS)
    (table,) = program_tables(program)
    assert "has 1,600 numbers, while these have 240" in table.reason


def test_nonzero_padding_row_keeps_its_numbers() -> None:
    model = Uses(USES["linear"], padding_idx=0)
    with torch.no_grad():
        model.words.weight[0] = 3.0
    program = capture_program(model, IDS)
    small = with_packed(program, exact(program))
    torch.testing.assert_close(small.run(IDS), program.run(IDS))


def test_rows_keep_type_of_model() -> None:
    program = capture_program(Uses(USES["rows"]).half(), IDS)
    small = with_packed(program, exact(program))
    assert small.run(IDS)[0].dtype == torch.float16


def test_rewritten_program_keeps_names_and_dynamic_sizes(tmp_path: Path) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(40, 6)

        def forward(self, tokens: Tensor, scale: Tensor) -> dict[str, Tensor]:
            return {"rows": self.words(tokens) * scale, "again": self.words(tokens)}

    batch = torch.export.Dim("examples")
    program = capture_program(
        Named(), (IDS, torch.ones(1)), ({0: batch, 1: torch.export.Dim.AUTO}, None), ["a"] * 40, {"task": "x"}
    )
    small = rewrite_program(with_packed(program, exact(program)), tmp_path / "small.pt")
    assert small.inputs == program.inputs
    assert small.output_names == program.output_names == ("rows", "again")
    assert (small.vocabulary, small.metadata) == (program.vocabulary, program.metadata)
    assert small.run(OTHER_IDS, torch.ones(1))[0].shape == (1, 4, 6)
    report = workflow.export(small, "onnx", tmp_path / "small.onnx")
    assert [table.uses for table in report.tables] == [2]
