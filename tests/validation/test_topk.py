"""Top-k logits of a table: near ties may swap places on a path, and nothing else may differ."""

import itertools
import re
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.lowering.graph import lower_program
from edge_embed.validation import table_paths
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.model_inputs import make_cases
from edge_embed.validation.model_paths import compare_model
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.table_call import Case
from edge_embed.validation.tables import Table
from edge_embed.validation.topk import TopKCall

from .conftest import Exported, copy_of, make_program

N, D = 90, 24
METHODS = ("DPQ", "ANT", "TT")
PATHS = ("training form", "packed oracle", "ONNX reference evaluator", "portable body")


def make(method: str):
    sizes = {"DPQ": {"num_codes": 16, "num_groups": 6}, "ANT": {"num_anchors": 9}, "TT": {"rank": 4}}
    return getattr(edge_embed, f"{method}Embedding")(N, D, padding_idx=3, **sizes[method])


class Best(nn.Module):
    """Top-k words of a tied table, with and without a bias."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.words = make(method)
        self.output = edge_embed.TiedOutput(self.words, bias=torch.randn(N))
        self.plain = edge_embed.TiedOutput(self.words)

    def forward(self, ids):
        hidden = torch.tanh(self.words(ids))
        return {"best": self.output.topk(hidden, 4), "all": self.plain.topk(hidden, N)}


def export(model: nn.Module, folder) -> Exported:
    folder.mkdir(exist_ok=True)
    program = make_program(model, (torch.randint(0, N, (2, 5)),), folder)
    lowered = lower_program(program)
    export_onnx(lowered, folder / "model.onnx")
    return Exported(program, lowered, folder / "model.onnx")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Exported]:
    folder = tmp_path_factory.mktemp("topk")
    torch.manual_seed(0)
    return {method: export(Best(method), folder / method) for method in METHODS}


class Masked(nn.Module):
    """Logits and top-k of a vocabulary with some masked words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = make("DPQ")
        bias = torch.zeros(N)
        bias[10:40] = -torch.inf
        self.output = edge_embed.TiedOutput(self.words, bias=bias)

    def forward(self, ids):
        hidden = torch.tanh(self.words(ids))
        return self.output(hidden), self.output.topk(hidden, N)


def test_masked_words_are_minus_infinity_on_every_path(tmp_path):
    file = export(Masked(), tmp_path)
    assert file.validate().failures() == []

    def unmask(model: onnx.ModelProto) -> None:
        (bias,) = (tensor for tensor in model.graph.initializer if tensor.name.endswith("bias"))
        numbers = onnx.numpy_helper.to_array(bias).copy()
        numbers[numbers < 0] = 0
        bias.CopyFrom(onnx.numpy_helper.from_array(numbers, bias.name))

    file.edit(unmask)
    assert any("values differ" in failure for failure in file.validate().failures())


@pytest.mark.parametrize("method", METHODS)
def test_sound_file_passes_on_every_path(files, method):
    report = files[method].validate()
    assert report.failures() == []
    assert report.complete


def test_latency_is_compared_with_dense_table(files):
    report = files["TT"].validate(iterations=2)
    peers = {(item.subject, item.peer) for item in report.latency.results if ", top " in item.subject}
    names = ("portable body", "empty call", "dense MatMul and TopK")
    subjects = ("table words, top 4 with bias", f"table words, top {N}")
    assert peers == set(itertools.product(subjects, names))


class BestOfEach(nn.Module):
    """Tables of all methods in one model: one export and one validation for all."""

    def __init__(self) -> None:
        super().__init__()
        self.models = nn.ModuleDict({method: Best(method) for method in METHODS})

    def forward(self, ids):
        return {method: model(ids) for method, model in self.models.items()}


@pytest.fixture(scope="module")
def half_reports(tmp_path_factory):
    """Return the reports for tables in half precision, and for a whole model."""
    torch.manual_seed(0)
    model = BestOfEach()
    reports = {"model": export(model.half(), tmp_path_factory.mktemp("model")).validate()}
    model = BestOfEach()
    for each in model.models.values():
        each.words.freeze(value_type="float16")
    return {**reports, "table": export(model, tmp_path_factory.mktemp("table")).validate()}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("half", ["table", "model"])
@pytest.mark.slow
def test_topk_in_half_precision_passes_on_every_path(method, half, half_reports):
    report = half_reports[half]
    (table,) = (table for table in report.tables if table.name == f"models.{method}.words")
    for path, use in itertools.product(PATHS, ("top 4 with bias", f"top {N}")):
        (check,) = (check for check in table.paths if check.name == f"{path}, {use}")
        assert check.status == "passed", check.detail
    assert [path.status for path in report.model.paths if path.name in PATHS] == ["passed"] * len(PATHS)


@pytest.mark.parametrize("method", METHODS)
def test_tensor_with_flipped_bit_is_found(files, method, tmp_path):
    tensor, byte = {"DPQ": ("codes", 0), "ANT": ("anchor_ids", 0), "TT": ("core_0", 2)}[method]
    exported = copy_of(files[method], tmp_path)
    exported.flip(f"words.{tensor}", byte=byte, bit=0)
    wrong = rf"table words: portable body, top {N}: sequences of hidden states \(float32\): hidden state 0, place \d+"
    assert any(re.match(wrong, failure) for failure in exported.validate().failures())


@pytest.mark.parametrize(("attribute", "value"), [("k", 5), ("biased", 0)])
def test_attribute_that_differs_is_found(files, attribute, value, tmp_path):
    exported = copy_of(files["ANT"], tmp_path)

    def change(model) -> None:
        node = next(node for node in model.graph.node if node.op_type == "ANTTopK")
        next(item for item in node.attribute if item.name == attribute).i = value

    exported.edit(change)
    text = "\n".join(exported.validate().failures())
    assert "table words: node: got ANTTopK" in text
    assert f"{attribute}={value}" in text
    assert "model: portable body: best_values: " in text


# ---------------------------------------------------------------------------------------------------------------------
# Comparison of rows.


@pytest.fixture(scope="module")
def call(files) -> TopKCall:
    """Return the top 3 of four rows that are 4, 2 + 2 ** -30, 2 and -1 times the hidden state."""
    exported = files["DPQ"]
    values = np.array([[[4.0], [2 + 2**-22], [2.0], [-1.0]]], np.float32)
    packed = edge_embed.packed.PackedDPQ.from_codes(np.arange(4)[:, None], values)
    tables = {name: Table(name, packed) for name in exported.lowered.tables}
    calls = table_paths.table_calls(exported.program, exported.lowered, tables)["words"]
    found = next(call for call in calls if call.name == f"top {N}")
    lowered = found.lowered.graph.node_copy(found.lowered, lambda node: node)
    lowered.update_arg(2, 3)
    return replace(found, lowered=lowered)


@pytest.mark.parametrize(
    ("values", "ids", "problem"),
    [
        ([4, 2 + 2**-22, 2], [0, 1, 2], ""),
        ([4, 2, 2], [0, 1, 2], ""),
        ([4, 2 + 2**-22, 2], [0, 2, 1], ""),
        ([4, 2, 2], [0, 2, 1], "place 1: got 2.0 (row 2) before 2.0 (row 1), expected descending values, equal ones"),
        ([2, 4, 2], [1, 0, 2], "place 0: got 2.0 (row 1) before 4.0 (row 0), expected descending values"),
        ([4, 2, 2], [0, 1, 1], "got row 1 2 times, expected different rows"),
        ([4, 2, 2], [0, 1, 4], "place 2: got id 4, expected 0 to 3"),
        ([4, 2, 2], [0, 1, -1], "place 2: got id -1, expected 0 to 3"),
        ([4, 2, 1.99], [0, 1, 2], "place 2, row 2: got 1.99"),
        ([4, 2, np.nan], [0, 1, 2], "place 1: got 2.0 (row 1) before nan (row 2)"),
        ([4, 2, -1], [0, 1, 3], "row 2 is missing: its logit 2.0 is above the last, -1.0"),
        ([2, 2, -1], [1, 2, 3], "row 0 is missing: its logit 4.0 is above the last, -1.0"),
    ],
)
def test_topk_comparison_allows_near_ties_only(call, values, ids, problem):
    case = Case("", {"hidden": np.ones((1, 1), np.float32), "bias": np.zeros(0, np.float32)})
    got = np.array([values], np.float32), np.array([ids])
    found = call.difference(case, got, call.expected(case))
    assert found.startswith(f"hidden state 0, {problem}") if problem else not found


def test_results_of_another_shape_or_type_are_named(call):
    case = Case("", {"hidden": np.ones((1, 1), np.float32), "bias": np.zeros(0, np.float32)})
    values, ids = call.oracle(case.feeds)
    expected = call.expected(case)
    assert call.difference(case, (values, ids), expected) == ""
    for got, text in (
        ((values[:, :2], ids[:, :2]), "values: got float32 [1, 2], expected float32 [1, 3]"),
        ((values.astype(np.float64), ids), "values: got float64 [1, 3], expected float32 [1, 3]"),
        ((values, ids.astype(np.int32)), "ids: got int32 [1, 3], expected int64 [1, 3]"),
    ):
        assert call.difference(case, got, expected) == text


# ---------------------------------------------------------------------------------------------------------------------
# Ids as outputs of a whole model.


def compared(exported: Exported, change) -> dict[str, str]:
    """Return the failures of the packed oracle's outputs, with ``change`` applied to the case's own outputs."""
    cases, _ = make_cases(exported.program, np.random.default_rng(0))
    outputs = tuple(tensor.clone() for tensor in cases[0].outputs)
    change(outputs)
    options = ValidationOptions().for_weights(half=False)
    case = replace(cases[0], outputs=outputs)
    found = compare_model(exported.lowered, ExportedModel(exported.path), [case], options, lambda: None)
    (oracle,) = (path for path in found if path.name == "packed oracle")
    return {output.name: output.detail for output in oracle.outputs if output.status == "failed"}


def test_ids_are_compared_by_their_logits(files):
    """Ids with equal logits may swap, and no others."""
    exported = files["TT"]
    names = exported.program.output_names
    assert names == ("best_values", "best_ids", "all_values", "all_ids")
    assert compared(exported, lambda outputs: None) == {}

    def swap(outputs) -> None:
        outputs[1][0, 0] = outputs[1][0, 0].flip(-1)

    assert list(compared(exported, swap)) == ["best_ids"]


@pytest.mark.parametrize(("bias", "wrong"), [(10, []), (11, ["best_ids"])])
def test_ids_of_equal_rows_may_swap_with_equal_bias(bias, wrong, tmp_path):
    """Rows 7 and 8 are equal; a bias of 11 instead of 10 makes the swap an error."""
    torch.manual_seed(0)
    model = Best("DPQ")
    with torch.no_grad():
        model.words.query[8] = model.words.query[7]
        model.output.bias[7], model.output.bias[8] = bias, 10  # both among the best
    exported = export(model, tmp_path / "equal")

    def swap(outputs) -> None:
        assert outputs[1][0, 0, :2].tolist() == [7, 8]
        outputs[1][0, 0, :2] = torch.tensor([8, 7])

    assert list(compared(exported, swap)) == wrong


def test_rows_masked_by_bias_are_interchangeable(tmp_path):
    class Kept(Best):
        def forward(self, ids):
            return self.output.topk(torch.tanh(self.words(ids)), 4).ids

    torch.manual_seed(0)
    model = Kept("TT")
    with torch.no_grad():
        model.output.bias[2:] = -float("inf")
    exported = export(model, tmp_path / "kept")
    assert compared(exported, lambda outputs: None) == {}

    def swap(outputs) -> None:
        assert outputs[0][0, 0, 2:].tolist() == [2, 3]
        outputs[0][0, 0, 2:] = torch.tensor([7, 5])

    assert compared(exported, swap) == {}

    def replace_first(outputs) -> None:
        outputs[0][0, 0, 0] = 9

    assert list(compared(exported, replace_first)) == ["output"]
