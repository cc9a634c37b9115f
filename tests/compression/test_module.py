"""Dense tables of a module: they are found with their uses, and replaced in a copy with the same results."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import edge_embed
from edge_embed.compression.modules import ModelTable, model_tables, replaced
from edge_embed.errors import BadInputError
from edge_embed.fitting import low_rank
from edge_embed.fitting.fitted_table import Fitted
from edge_embed.fitting.found_table import chosen
from edge_embed.workflow import lower


class Language(nn.Module):
    """A tied output layer with a bias that the model shares, as in BERT, beside a small table."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 6, padding_idx=0)
        self.places = nn.Embedding(5, 6)
        self.head = nn.Linear(6, 40)
        self.head.weight = self.words.weight
        self.bias = self.head.bias

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.words(ids) + self.places.weight[: ids.shape[1]])  # type: ignore[no-any-return]


def exact(table: ModelTable) -> Fitted:
    """Return a layer with the same rows, up to rounding."""
    return Fitted(low_rank.fit(table.weight, table.weight.shape[1], table.padding_idx))


def found(model: nn.Module) -> dict[str, ModelTable]:
    return {table.name: table for table in model_tables(model)}


IDS = torch.tensor([[0, 3, 39], [7, 7, 1]])


def test_tied_output_layer_shares_compressed_table() -> None:
    model = Language()
    table = found(model)["words"]
    assert (table.uses, table.padding_idx, table.reason) == (2, 0, "")
    before = copy.deepcopy(model.state_dict())
    small = replaced(model, {table: exact(table)})
    torch.testing.assert_close(small(IDS), model(IDS))
    assert isinstance(small.head, edge_embed.TiedOutput)
    assert small.head.embedding is small.words
    assert small.head.bias is small.bias is not model.bias
    assert small.places is not model.places
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())


def test_output_layer_is_tied_by_memory_not_by_equal_numbers() -> None:
    model = Language()
    model.head.weight = nn.Parameter(model.words.weight.data)  # another parameter over the same memory
    assert found(model)["words"].uses == 2
    model.head.weight = nn.Parameter(model.words.weight.detach().clone())
    tables = found(model)
    assert tables["words"].uses == 1
    assert (tables["head"].looks_up, tables["head"].uses) == (False, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
@pytest.mark.parametrize("training", [False, True])
def test_replaced_layer_keeps_mode_and_type(training: bool, dtype: torch.dtype) -> None:
    model = Language().to(dtype).train(training)
    model.words.train(not training)  # as a user sets a part of a model to eval
    table = found(model)["words"]
    small = replaced(model, {table: exact(table)})
    assert isinstance(small.head, edge_embed.TiedOutput)
    modes = {name: module.training for name, module in small.named_children()}
    assert modes == {"words": not training, "places": training, "head": training}
    assert {weight.dtype for weight in small.parameters()} == {dtype}
    assert small.words(IDS).dtype == small(IDS).dtype == dtype


@pytest.mark.parametrize(
    ("method", "sizes"),
    [
        ("dpq", {"num_codes": 16, "num_groups": 8, "value_type": "float16"}),
        ("ant", {"num_anchors": 16, "nonzeros": 4, "weight_type": "float16", "value_type": "float16"}),
        ("tt", {"rank": 4, "value_type": "float16"}),
        ("tr", {"rank": 4, "value_type": "float16"}),
        ("low_rank", {"rank": 4, "value_type": "float16"}),
        ("rows", {"bits": 4}),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_saved_copy_has_bytes_of_report(method: str, sizes: dict[str, Any], dtype: torch.dtype, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Embedding(600, 32)).to(dtype)
    small, report = edge_embed.compress(model, method, **sizes)
    edge_embed.save(small, tmp_path / "small.pt", IDS)
    (packed,) = lower(tmp_path / "small.pt").tables.values()
    assert report.tables[0].fidelity is not None
    assert packed.nbytes == report.tables[0].fidelity.packed_bytes
    assert small(IDS).dtype == dtype


def test_layer_without_model_is_replaced() -> None:
    layer = nn.Embedding(40, 6)
    table = found(layer)["embedding"]
    torch.testing.assert_close(replaced(layer, {table: exact(table)})(IDS), layer(IDS))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_replaced_bags_give_same_results(mode: str) -> None:
    layer = nn.EmbeddingBag(40, 6, mode=mode, padding_idx=7, include_last_offset=True)
    with torch.no_grad():
        layer.weight[7] = 3.0  # bags skip the padding row even if it is not zero
    table = found(layer)["embedding"]
    small = replaced(layer, {table: exact(table)})
    given = torch.tensor([1, 7, 5, 9, 7]), torch.tensor([0, 2, 2, 5])
    torch.testing.assert_close(small(*given), layer(*given))


def test_nonzero_padding_row_keeps_its_numbers() -> None:
    layer = nn.Embedding(40, 6, padding_idx=0)
    with torch.no_grad():
        layer.weight[0] = 3.0
    table = found(layer)["embedding"]
    assert table.padding_idx is None
    assert replaced(layer, {table: exact(table)})(torch.tensor(0)).tolist() == pytest.approx([3.0] * 6, rel=1e-6)


class Scaled(nn.Embedding):
    """An embedding that scales its rows, as in Gemma."""

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) * 3


def with_hook() -> nn.Module:
    layer = nn.Embedding(40, 6)
    layer.register_forward_hook(lambda module, given, result: result * 2)
    return layer


def with_slice() -> nn.Module:
    model = nn.ModuleDict({"all": nn.Embedding(40, 6), "some": nn.Linear(6, 10)})
    model["some"].weight = nn.Parameter(model["all"].weight.data[:10])
    return model


def with_parametrization() -> nn.Module:
    layer = nn.Linear(6, 40)
    parametrize.register_parametrization(layer, "bias", nn.Identity())
    return layer


def with_a_shared_original() -> nn.Module:
    model = nn.ModuleDict({"words": nn.Embedding(40, 6), "head": nn.Linear(6, 40)})
    model["head"].weight = model["words"].weight
    parametrizations.weight_norm(model["words"], dim=None)
    model["head"].weight = model["words"].parametrizations.weight.original1
    return model


def with_two_bags() -> nn.Module:
    model = nn.ModuleDict({"one": nn.EmbeddingBag(40, 6), "other": nn.EmbeddingBag(40, 6, mode="max")})
    model["other"].weight = model["one"].weight
    return model


def with_a_bag_over_padding() -> nn.Module:
    model = nn.ModuleDict({"bag": nn.EmbeddingBag(40, 6, padding_idx=1), "head": nn.Linear(6, 40)})
    model["head"].weight = model["bag"].weight
    with torch.no_grad():
        model["bag"].weight[1] = 1.0
    return model


def integers() -> nn.Module:
    layer = nn.Embedding(40, 6)
    layer.weight = nn.Parameter(torch.ones(40, 6, dtype=torch.int8), requires_grad=False)
    return layer


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Scaled(40, 6), "that overrides forward"),
        (nn.Embedding(40, 6, max_norm=1.0), "max_norm"),
        (nn.Embedding(40, 6, device="meta"), "meta device"),
        (with_hook(), "hooks"),
        (with_slice(), "some shares its memory"),
        (with_a_shared_original(), "head shares its memory"),
        (with_two_bags(), "one and other share it"),
        (with_a_bag_over_padding(), "bags skip row 1 as padding"),
        (integers(), "int8, expected floats"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_table_without_equivalent_layer_is_left_with_reason(model: nn.Module, reason: str) -> None:
    table = next(iter(found(model).values()))
    assert reason in table.reason
    with pytest.raises(BadInputError, match=f"no table to compress: {table.name}: .*{reason}"):
        chosen([table], [], 240)
    with pytest.raises(BadInputError, match=f"{table.name}: cannot be compressed: .*{reason}"):
        chosen([table], [table.name], 240)


def test_layer_with_another_parametrization_is_left_with_reason() -> None:
    assert "parametrized bias" in found(with_parametrization())["linear"].reason


NORMS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "weight_norm": parametrizations.weight_norm,
    "spectral_norm": parametrizations.spectral_norm,
    "old weight_norm": nn.utils.weight_norm,
    "old spectral_norm": nn.utils.spectral_norm,
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("is_training", [False, True])
def test_normed_layer_is_replaced_without_its_norm(norm: str, is_training: bool) -> None:
    model = nn.Sequential(NORMS[norm](nn.Embedding(40, 6)), NORMS[norm](nn.Embedding(40, 6)))
    model.forward = lambda ids: model[0](ids) + model[1](ids)  # type: ignore[method-assign]
    before = {name: value.clone() for name, value in model.train(is_training).state_dict().items()}
    tables = found(model)
    assert [(name, table.uses, table.reason) for name, table in tables.items()] == [("0", 1, ""), ("1", 1, "")]
    small = replaced(model, {table: exact(table) for table in tables.values()})
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
    assert not any("original" in name or "weight_" in name for name in small.state_dict())
    torch.testing.assert_close(small[0](IDS) + small[1](IDS), model.eval()(IDS))


class Own(nn.Module):
    """A model with parameters used as tables, beside an embedding and in a list."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.words, self.others = nn.Parameter(torch.randn(rows, 6)), nn.Embedding(90, 6)
        self.more = nn.ParameterList([torch.randn(80, 6)])

    def forward(self, ids: Tensor) -> Tensor:
        return self.words[ids] + self.others(ids) + self.more[0][ids]  # type: ignore[no-any-return]


def test_parameter_with_many_rows_is_listed_with_remedy() -> None:
    _, report = edge_embed.compress(Own(90), "rows", bits=4)
    assert [(table.name, table.method) for table in report.tables] == [
        ("others", "rows"),
        ("words", "dense"),
        ("more.0", "dense"),
    ]
    assert "save the model and compress the file" in report.tables[1].reason


@pytest.mark.parametrize(("rows", "names"), [(90, ["words"]), (9, ["words"]), (90, ["more.0"])])
def test_parameter_given_by_name_is_refused_with_remedy(rows: int, names: list[str]) -> None:
    with pytest.raises(BadInputError, match=rf"{names[0]}: cannot be compressed: .* compress the file"):
        edge_embed.compress(Own(rows), "rows", bits=4, modules=names)


def test_model_of_parameters_alone_is_refused_with_remedy() -> None:
    model = Own(90)
    del model.others
    with pytest.raises(BadInputError, match=r"no table to compress: words: .* compress the file; more\.0: "):
        edge_embed.compress(model, "rows", bits=4)


def test_tables_are_chosen_by_share_or_by_name() -> None:
    tables = model_tables(Language())
    numbers = 40 * 6 + 5 * 6 + 40
    assert {table.name: table.reason for table in chosen(tables, [], numbers)} == {"words": "", "places": ""}
    small = {table.name: table.reason for table in chosen(tables, [], 100 * numbers // 10)}
    assert small["words"] == ""
    assert small["places"] == "1.0% of the model: give its name to compress it (--module places)"
    named = {table.name: table.reason for table in chosen(tables, ["places"], numbers)}
    assert named == {"words": "not among the given names", "places": ""}
    with pytest.raises(
        BadInputError,
        match=r"got 'wrds', expected the name of a table: did you mean 'words'\? choose from 'words', 'places'",
    ):
        chosen(tables, ["wrds"], numbers)


def test_linear_layer_is_compressed_if_named() -> None:
    model = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 40))
    assert [table.name for table in chosen(model_tables(model), [], 1)] == ["0"]
    (_, head) = chosen(model_tables(model), ["1"], 1)
    small = replaced(model, {head: exact(head)})
    torch.testing.assert_close(small(torch.tensor([3])), model(torch.tensor([3])))
