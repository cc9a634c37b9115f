"""Models that have no TFLite export are refused with the remedy, and nothing is written."""

import sys

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError, EdgeEmbedError


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = edge_embed.DPQEmbedding(20, 12, 16, 4)
        self.tags = nn.Linear(12, 3)

    def forward(self, ids):
        return self.tags(self.words(ids))


class Products(Tagger):
    def forward(self, ids):
        return self.words(ids).cumprod(-1)


class Chosen(Tagger):
    def forward(self, ids):
        return self.words(ids.nonzero()[:, 0])


class Wide(Tagger):
    def forward(self, ids):
        return self.words(ids).double().sum(-1)


class Sorted(Tagger):
    def forward(self, ids):
        return self.words(ids).sort(-1)[0]


class Integers(Tagger):
    def __init__(self, dtype):
        super().__init__()
        self.register_buffer("classes", torch.zeros(20, 12, dtype=dtype))

    def forward(self, ids):
        return self.words(ids), nn.functional.embedding(ids, self.classes)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.pt"
    return edge_embed.save(edge_embed.DPQEmbedding(20, 12, 16, 4), path, torch.tensor([[1, 2]]))


def test_model_beyond_lookups_without_converter_names_extra(export, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "litert_torch", None)
    with pytest.raises(EdgeEmbedError, match=r'more than lookups and bags.*pip install "edge-embed\[tflite-models\]"'):
        export(Tagger())
    assert not list(tmp_path.rglob("*.tflite"))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Products, r"cannot be expressed in TFLite: .*cumprod.*use --target onnx"),
        (Chosen, r"aten.nonzero.default returns a tensor whose size depends on values.*use --target onnx"),
        (Wide, r"cannot be expressed in TFLite: failed to legalize operation 'tfl.sum'.*use --target onnx"),
        (Sorted, r"requires operators .*STABLEHLO_SORT, which not every TFLite runtime supports: use --target onnx"),
    ],
)
def test_operators_without_converter_or_runtime_are_refused(export, tmp_path, model, message):
    pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")
    with pytest.raises(BadInputError, match=message):
        export(model())
    assert not list(tmp_path.rglob("*.tflite"))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16])
def test_dense_table_of_another_type_is_refused_by_name(export, tmp_path, dtype):
    pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")
    got = str(dtype).removeprefix("torch.")
    with pytest.raises(BadInputError, match=rf"table classes: got {got}, expected float32 or int8.*--target onnx"):
        export(Integers(dtype))
    assert not list(tmp_path.rglob("*.tflite"))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"length": [3]}, "got dimension 'length', expected one of batch, sequence"),
        ({"sequence": [3, 0]}, r"got \[3, 0\] for sequence, expected sizes of 1 to 2147483647, such as"),
        ({"sequence": [10**11]}, r"got \[100000000000\] for sequence, expected sizes of 1 to 2147483647"),
        (
            {"sequence": [2**31 - 1], "batch": [2**31 - 1]},
            r"got input ids of .* bytes, expected at most 268,435,456: choose smaller sizes",
        ),
        ({"batch": []}, r"got \[\] for batch, expected sizes"),
    ],
)
def test_sizes_that_no_signature_can_have_are_refused(export, tmp_path, sizes, message):
    with pytest.raises(BadInputError, match=message):
        export(edge_embed.DPQEmbedding(20, 12, 16, 4), tflite_sizes=sizes)
    assert not list(tmp_path.rglob("*.tflite"))


class Positions(Tagger):
    def __init__(self):
        super().__init__()
        self.positions = nn.Embedding(8, 12)

    def forward(self, ids):
        return self.words(ids) + self.positions(torch.arange(ids.shape[1]))


def test_size_beyond_table_of_positions_is_refused(export, tmp_path):
    with pytest.raises(BadInputError, match=r"fails at batch=2, sequence=9: IndexError: .*expected sizes"):
        export(Positions(), tflite_sizes={"sequence": [8, 9]})
    assert not list(tmp_path.rglob("*.tflite"))


def test_model_without_compressed_table_is_refused(export):
    with pytest.raises(BadInputError, match="no compressed table"):
        export(nn.Embedding(20, 12))


@pytest.mark.parametrize(
    ("target", "option"),
    [
        ("tflite", {"external_data": "always"}),
        ("tflite", {"memory_megabytes": 3}),
        ("tflite", {"tokenizer": "tokenizer.json"}),
        ("onnx", {"tflite_table": "byte"}),
        ("onnx", {"tflite_sizes": {"batch": [1]}}),
    ],
)
def test_option_of_other_target_is_refused(saved, tmp_path, target, option):
    (name,) = option
    with pytest.raises(BadInputError, match=f"{name}: got target {target}, expected "):
        edge_embed.export(saved, target, tmp_path / "model", **option)
    assert not list(tmp_path.iterdir())


def test_report_names_layout_of_tables(saved, tmp_path):
    report = edge_embed.export(saved, "tflite", tmp_path / "model.tflite", tflite_table="pairs").to_json()
    (table,) = report["tables"]
    assert (table["layout"], table["added_bytes"]) == ("pairs", 256 * 12 * 4 - 16 * 12 * 4)
    assert report["frozen"] == {"ids": [], "output": ["12"]}


def test_export_without_flatbuffers_package_names_extra(saved, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.schema_py_generated", None)
    with pytest.raises(EdgeEmbedError, match=r'pip install "edge-embed\[tflite\]"'):
        edge_embed.export(saved, "tflite", tmp_path / "model.tflite")
    assert not list(tmp_path.iterdir())
