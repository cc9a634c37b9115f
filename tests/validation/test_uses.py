"""Every method in every use: a sound file passes on every path, and every difference is found and named."""

import itertools
import re

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.fitting import rows
from edge_embed.fitting.order import by_frequency
from edge_embed.layers.bag import ScaledDPQEmbeddingBag, bag_of
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.lowering.graph import lower_program

from ..tiered_tables import tiered
from .conftest import Exported, copy_of, make_program

N, D = 90, 24
METHODS = ("DPQ", "scaled DPQ", "tiered", "ANT", "TT", "TR", "ordered TT")
STORED = ("scaled DPQ", "tiered")  # frozen already: the stored type stays
# A tensor of each method, the name of its first item, and a byte whose change exceeds rounding.
FIRST = {
    "DPQ": ("codes", "row 0, group 0"),
    "scaled DPQ": ("row_scale_codes", "row 0"),
    "tiered": ("tier_1_codes", "tier 1, row 0, group 0"),
    "ANT": ("anchor_ids", "row 0, anchor "),
    "TT": ("core_0", "index 0, column index 0, ranks 0 and 0"),
    "TR": ("core_0", "index 0, column index 0, ranks 0 and 0"),
    "ordered TT": ("row_order", "id 0"),
}
FLIPPED = {"DPQ": 0, "scaled DPQ": 0, "tiered": 0, "ANT": 0, "TT": 2, "TR": 2, "ordered TT": 0}


def make(method: str, kind: str = "Embedding", **options):
    sizes = {"DPQ": {"num_codes": 16, "num_groups": 6}, "ANT": {"num_anchors": 9}, "TT": {"rank": 4}, "TR": {"rank": 3}}
    if method == "scaled DPQ":
        layer = rows.fit(0.1 * torch.randn(N, D, generator=torch.Generator().manual_seed(0)), 4, 3)
        return layer if kind == "Embedding" else ScaledDPQEmbeddingBag(layer.to_packed(), **options)
    if method == "tiered":
        layer = TieredEmbedding.from_packed(tiered(sizes=(9, 30, N - 39), dim=D))
        return layer if kind == "Embedding" else bag_of(layer, **options)
    if method == "ordered TT":
        method, options = "TT", {**options, "row_order": by_frequency(torch.arange(N), 3)}
    return getattr(edge_embed, method + kind)(N, D, padding_idx=3, **sizes[method], **options)


class Everything(nn.Module):
    """A table with lookups and an output layer, and tables with mean bags and weighted bags."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.bags = make(method, "EmbeddingBag", mode="mean")
        self.words = make(method)
        self.weighted = make(method, "EmbeddingBag", mode="sum")
        self.output = edge_embed.TiedOutput(self.words, bias=True)

    def forward(self, ids, weights):
        hidden = torch.tanh(self.words(ids)) + self.bags(ids).unsqueeze(1)
        return self.output(hidden), self.weighted(ids, per_sample_weights=weights)


def export(model: nn.Module, folder) -> Exported:
    folder.mkdir(exist_ok=True)
    program = make_program(model, (torch.randint(0, N, (2, 5)), torch.rand(2, 5)), folder)
    lowered = lower_program(program)
    export_onnx(lowered, folder / "model.onnx")
    return Exported(program, lowered, folder / "model.onnx")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Exported]:
    folder = tmp_path_factory.mktemp("uses")
    torch.manual_seed(0)
    return {method: export(Everything(method), folder / method) for method in METHODS}


@pytest.mark.parametrize("method", METHODS)
def test_validation_of_every_use_passes_on_every_path(files, method):
    report = files[method].validate()
    assert report.failures() == []
    assert report.complete
    paths = {check.name for table in report.tables for check in table.paths}
    names = ("training form", "packed oracle", "ONNX reference evaluator", "portable body", "custom op")
    uses = ("", ", logits", ", bag (mean)", ", bag (weighted sum)")
    assert paths == {path + use for path, use in itertools.product(names, uses)}


@pytest.mark.parametrize("method", METHODS)
def test_tensor_with_flipped_bit_is_found_and_located(files, method, tmp_path):
    tensor, place = FIRST[method]
    exported = copy_of(files[method], tmp_path)
    exported.flip(f"words.{tensor}", byte=FLIPPED[method], bit=0)
    report = exported.validate()
    assert report.exit_code == 3
    text = "\n".join(report.failures())
    assert f"table words: stored rows: {tensor} differ at {place}" in text
    for path in ("portable body", "custom op", "portable body, logits", "custom op, logits"):
        assert f"table words: {path}: " in text
    assert "table bags: " not in text


@pytest.mark.slow
def test_allowed_error_is_below_2_to_minus_11(files, tmp_path):
    """A weight with a relative error of 2 ** -11 is beyond rounding."""
    for method, tensor in (("ANT", "weights"), ("TT", "core_1"), ("TR", "core_2")):
        exported = copy_of(files[method], tmp_path / method)
        exported.flip(f"words.{tensor}", byte=1, bit=4)
        words = next(table for table in exported.validate().tables if table.name == "words")
        failed = {path.name for path in words.paths if path.status == "failed"}
        assert {"portable body", "custom op"} <= failed


@pytest.mark.slow
def test_bag_mode_that_differs_is_found(files, tmp_path):
    exported = copy_of(files["ANT"], tmp_path)

    def change(model: onnx.ModelProto) -> None:
        node = next(
            node for node in model.graph.node if node.op_type == "ANTEmbeddingBag" and "bags.weights" in node.input
        )
        next(item for item in node.attribute if item.name == "mode").i = 2

    exported.edit(change)
    text = "\n".join(exported.validate().failures())
    assert "table bags: node: got ANTEmbeddingBag" in text
    assert "mode=2" in text
    assert "table bags: custom op, bag (mean)" in text
    assert "model: custom op" in text


@pytest.mark.slow
def test_output_layer_of_another_table_is_found(files, tmp_path):
    exported = copy_of(files["TT"], tmp_path)

    def change(model: onnx.ModelProto) -> None:
        node = next(node for node in model.graph.node if node.op_type == "TTLogits")
        for at, name in enumerate(node.input):
            node.input[at] = name.replace("words.", "bags.")

    exported.edit(change)
    text = "\n".join(exported.validate().failures())
    assert "table words: node: expected TTLogits (format_version=1, num_embeddings=90, padding_idx=3), got only" in text
    assert "table bags: node: got TTLogits" in text


class Side(nn.Module):
    """Several models side by side: one export and one validation for all."""

    def __init__(self, **models: nn.Module) -> None:
        super().__init__()
        self.models = nn.ModuleDict(models)

    def forward(self, *inputs):
        return [model(*inputs) for model in self.models.values()]


def failures_of(report, name: str) -> list[str]:
    """Return the failures of one model's tables, and of the whole model."""
    parts = (r"table models\." + name + r"\.", "(?!table )")
    return [failure for failure in report.failures() if re.match("|".join(parts), failure)]


@pytest.fixture(scope="module")
def half_tables(tmp_path_factory):
    torch.manual_seed(0)
    models = {method.replace(" ", "_"): Everything(method) for method in METHODS if method not in STORED}
    for model in models.values():
        for layer in (model.bags, model.words, model.weighted):
            layer.freeze(value_type="float16")
    exported = export(Side(**models), tmp_path_factory.mktemp("half"))
    assert {table.shape.value_type for table in exported.lowered.tables.values()} == {"float16"}
    report = exported.validate()
    assert len(report.tables) == 3 * len(models)
    return report


@pytest.mark.parametrize("method", [method for method in METHODS if method not in STORED])
@pytest.mark.slow
def test_half_precision_tables_pass_on_every_path(method, half_tables):
    assert failures_of(half_tables, method.replace(" ", "_")) == []


@pytest.mark.slow
def test_int8_values_of_dpq_pass_on_every_path(tmp_path):
    torch.manual_seed(0)
    model = Everything("DPQ")
    for layer in (model.bags, model.words, model.weighted):
        layer.freeze(value_type="int8")
    exported = export(model, tmp_path / "narrow")
    assert {table.value_type for table in exported.lowered.tables.values()} == {"int8"}
    report = exported.validate()
    assert report.failures() == []
    assert report.complete
    exported.flip("words.value_scales", byte=9, bit=0)
    text = "\n".join(exported.validate().failures())
    assert "table words: stored rows: value_scales differ at the scale of group 2" in text
    assert "table words: portable body: " in text
    assert "table words: custom op: " in text


class Tied(nn.Module):
    """One table with lookups and output layer."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.words, self.linear = make(method), nn.Linear(D, D)
        self.output = edge_embed.TiedOutput(self.words)

    def forward(self, ids):
        return self.output(self.linear(self.words(ids)))


@pytest.fixture(scope="module")
def narrow_weights(tmp_path_factory):
    torch.manual_seed(0)
    models = {weight_type: Tied("ANT") for weight_type in ("float16", "int8")}
    for weight_type, model in models.items():
        model.words.freeze(weight_type=weight_type)
    exported = of_ids(Side(**models), tmp_path_factory.mktemp("narrow"))
    return exported, exported.validate()


@pytest.mark.parametrize("weight_type", ["float16", "int8"])
@pytest.mark.slow
def test_narrow_weights_of_ant_pass_on_every_path(weight_type, narrow_weights):
    exported, report = narrow_weights
    assert exported.lowered.tables[f"models.{weight_type}.words"].weights.dtype == weight_type
    assert failures_of(report, weight_type) == []


def of_ids(model: nn.Module, folder) -> Exported:
    program = make_program(model, (torch.randint(0, N, (2, 5)),), folder)
    lowered = lower_program(program)
    export_onnx(lowered, folder / "model.onnx")
    return Exported(program, lowered, folder / "model.onnx")


@pytest.fixture(scope="module")
def half_models(tmp_path_factory):
    torch.manual_seed(0)
    models = {method.replace(" ", "_"): Tied(method) for method in METHODS}
    exported = of_ids(Side(**models).half(), tmp_path_factory.mktemp("half"))
    assert {output.dtype for output in exported.program.run(torch.randint(0, N, (2, 5)))} == {torch.float16}
    return exported, exported.validate()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow
def test_half_precision_model_passes_on_every_path(method, half_models):
    """All weights, inputs and outputs are float16."""
    exported, report = half_models
    name = method.replace(" ", "_")
    stored = "float32" if method in STORED else "float16"
    assert exported.lowered.tables[f"models.{name}.words"].shape.value_type == stored
    assert failures_of(report, name) == []


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_long_bags_on_several_threads_are_complete(mode, tmp_path):
    """No term of a bag is lost if the runtime splits an operator over threads."""

    class Bags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags = edge_embed.DPQEmbeddingBag(2000, 64, num_codes=16, num_groups=8, mode=mode)

        def forward(self, ids):
            return self.bags(ids)

    edge_embed.export(Bags(), "onnx", tmp_path / "bags.onnx", torch.ones(2, 4, dtype=torch.int64))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 4
    sessions = [edge_embed.create_session(tmp_path / "bags.onnx", portable, options) for portable in (True, False)]
    random = np.random.default_rng(0)
    for shape in ((1, 20_000), (3, 10_000), (300, 100)):
        ids = random.integers(0, 2000, shape)
        for _ in range(5):
            got, expected = (session.run(None, {"ids": ids})[0] for session in sessions)
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
