"""Whole models: litert-torch converts their body, packed tables are attached before and behind it."""

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.exporters.tflite import whole_model
from edge_embed.exporters.tflite.converted_body import convert_body
from edge_embed.exporters.tflite.portable import not_portable
from edge_embed.validation.options import ValidationOptions
from edge_embed.workflow import load, validate

pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")

VOCABULARY, WIDTH = 3000, 32


class Encoder(nn.Module):
    """A lookup, a transformer, and the same table as output layer."""

    def __init__(self):
        super().__init__()
        self.words = edge_embed.DPQEmbedding(VOCABULARY, WIDTH, 16, 8, variant="vq", padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True)
        self.head = edge_embed.TiedOutput(self.words)

    def forward(self, ids, mask):
        return torch.log_softmax(self.head(self.layer(self.words(ids) * mask.unsqueeze(-1))), -1)


class Recurrent(nn.Module):
    """Ids that the model computes with, a recurrent layer, and the top-k words with a bias."""

    def __init__(self):
        super().__init__()
        self.words = edge_embed.ANTEmbedding(VOCABULARY, WIDTH, 20)
        self.layer = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = edge_embed.TiedOutput(self.words, bias=True)
        nn.init.normal_(self.head.bias)

    def forward(self, ids):
        states, last = self.layer(self.words(ids + 1))
        return (*self.head.topk(states[:, -1], 5), last)


class Bags(nn.Module):
    """Two tables, one of them for bags, beside features that pass both."""

    def __init__(self):
        super().__init__()
        self.tags = edge_embed.DPQEmbeddingBag(VOCABULARY, WIDTH, 200, 8, mode="mean", padding_idx=0)
        self.user = edge_embed.TTEmbedding(500, WIDTH, rank=4)
        self.score = nn.Sequential(nn.Linear(2 * WIDTH + 3, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, tags, user, features):
        return self.score(torch.cat([self.tags(tags), self.user(user), features], -1))


class Zeros(nn.Module):
    """Zeros that the converter drops: an addition to rows before the output layer, and an untrained bias."""

    def __init__(self):
        super().__init__()
        self.words = edge_embed.DPQEmbedding(VOCABULARY, WIDTH, 16, 8, variant="vq")
        self.shift = nn.Parameter(torch.zeros(WIDTH))
        self.head = edge_embed.TiedOutput(self.words, bias=True)

    def forward(self, ids):
        return self.head(self.words(ids) + self.shift)


class Narrow(nn.Module):
    """Ids that the model casts to int32, which the converter has cast already, and a hash of other ids."""

    def __init__(self):
        super().__init__()
        self.words = edge_embed.TTEmbedding(VOCABULARY, WIDTH, rank=4)
        self.score = nn.Linear(WIDTH, 2)

    def forward(self, ids, raw):
        return self.score(self.words(ids.int()) + self.words(raw % VOCABULARY))


def ids(*shape, n=VOCABULARY):
    return torch.randint(1, n - 1, shape)


MODELS = {
    "encoder": (Encoder, lambda: (ids(2, 5), torch.ones(2, 5)), {"batch": [1], "sequence": [8, 16]}),
    "recurrent": (Recurrent, lambda: (ids(2, 6),), None),
    "zeros": (Zeros, lambda: (ids(2, 3),), None),
    "narrow": (Narrow, lambda: (ids(2, 3), ids(2, 3)), None),
    "bags": (Bags, lambda: (ids(3, 4), ids(3, n=500).int(), torch.randn(3, 3)), {"batch": [1, 4]}),
}


@pytest.fixture(scope="module")
def bodies():
    """Return the converted body of each model that `files` has exported."""
    return {}


@pytest.fixture(scope="module")
def files(tmp_path_factory, bodies):
    """Return a function that exports each model once: model, path of the saved file, path of the export, report."""
    made = {}

    def get(name):
        if name not in made:
            torch.manual_seed(0)
            folder, (make, example, sizes) = tmp_path_factory.mktemp(name), MODELS[name]
            model = make().eval()
            saved = edge_embed.save(model, folder / "model.pt", example())
            with pytest.MonkeyPatch.context() as patch:
                convert = whole_model.convert_body
                patch.setattr(whole_model, "convert_body", lambda *given: bodies.setdefault(name, convert(*given)))
                report = edge_embed.export(saved, "tflite", folder / "model.tflite", tflite_sizes=sizes)
            made[name] = model, saved, folder / "model.tflite", report
        return made[name]

    return get


def inputs_of(program, sizes):
    """Yield inputs of the given sizes and of the model's types."""
    for declared in program.inputs:
        shape = declared.sizes(sizes)
        yield ids(*shape, n=500).to(declared.dtype) if declared.holds_integers else torch.rand(shape)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_outputs_match_those_of_model(files, run_file, name):
    model, saved, path, report = files(name)
    program = load(saved)
    cases = [list(inputs_of(program, sizes)) for sizes in report.signatures.values()]
    feeds = [{declared.name: value.numpy() for declared, value in zip(program.inputs, case, strict=True)}
             for case in cases]  # fmt: skip
    for case, found in zip(cases, run_file(path, feeds), strict=True):
        with torch.no_grad():
            expected = model(*case)
        for got, wanted in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert got.shape == wanted.shape
            assert np.abs(got - wanted.numpy()).max() <= 1e-6 * np.abs(wanted.numpy()).max()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_ids_out_of_range_are_refused(files, run_file, name):
    _, saved, path, report = files(name)
    program, sizes = load(saved), next(iter(report.signatures.values()))
    for bad in (-2, VOCABULARY, 2**32 + 1, -(2**32) + 1):
        feeds = {declared.name: value.numpy()
                 for declared, value in zip(program.inputs, inputs_of(program, sizes), strict=True)}  # fmt: skip
        feeds[program.inputs[0].name].flat[0] = bad
        (refusal,) = run_file(path, [feeds])
        assert isinstance(refusal, str)
        assert "gather" in refusal.lower()


@pytest.mark.parametrize("name", [name for name in MODELS if name != "zeros"])  # its body is almost empty
def test_file_holds_no_dense_table_and_each_weight_once(files, bodies, name):
    _, saved, path, report = files(name)
    packed = sum(table.packed_bytes + table.added_bytes for table in report.tables)
    sizes = packed + len(bodies[name])
    assert path.stat().st_size <= 1.02 * sizes + 16_384 * len(report.signatures)  # operators, names
    for table in edge_embed.lower(saved).tables.values():
        assert table.rows(np.arange(5)).tobytes() not in path.read_bytes()


def test_operators_of_whole_models_run_on_both_runtimes(files):
    from edge_embed.inspection.tflite_file import read_tflite

    for name in MODELS:
        assert not not_portable(read_tflite(files(name)[2]).operators)
    assert not_portable(["ADD", "CUSTOM", "STABLEHLO_SORT", "WHILE"]) == ["CUSTOM", "STABLEHLO_SORT", "WHILE"]


@pytest.mark.parametrize("name", MODELS)
def test_validation_of_whole_models_passes(files, name, monkeypatch):
    _, saved, path, _ = files(name)
    if name == "bags":  # a second conversion is equal: other models have one
        monkeypatch.setattr(whole_model, "convert_body", convert_body)
    report = validate(saved, path, options=ValidationOptions(iterations=0))
    assert (report.exit_code, report.failures()) == (0, [])


def test_validation_of_output_layers_over_float16_passes(tmp_path):
    """Their states are float32, and TFLite has no float16 arithmetic to test them with."""

    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            tables = (edge_embed.TTEmbedding(VOCABULARY, WIDTH, rank=4, row_order=order)
                      for order in (None, torch.randperm(VOCABULARY)))  # fmt: skip
            self.words = nn.ModuleList(table.freeze("float16") for table in tables)
            self.output_layers = nn.ModuleList(map(edge_embed.TiedOutput, self.words))

        def forward(self, ids):
            states = torch.tanh(sum(table(ids) for table in self.words))[:, -1]
            return tuple(found for layer in self.output_layers for found in layer.topk(states, 5))

    torch.manual_seed(0)
    saved = edge_embed.save(Halves().eval(), tmp_path / "model.pt", ids(2, 3))
    edge_embed.export(saved, "tflite", tmp_path / "model.tflite")
    report = validate(saved, tmp_path / "model.tflite", options=ValidationOptions(iterations=0))
    assert (report.exit_code, report.failures()) == (0, [])


def test_signatures_are_named_by_varying_sizes(files):
    _, _, _, report = files("encoder")
    assert report.signatures == {
        "sequence_8": {"batch": 1, "sequence": 8},
        "sequence_16": {"batch": 1, "sequence": 16},
    }
    assert report.to_json()["frozen"]["ids"] == ["1", "8 or 16"]
    _, _, _, report = files("recurrent")
    assert report.signatures == {"serving_default": {"batch": 2, "sequence": 6}}  # of the example


def test_ids_beyond_int32_are_refused_by_model_that_computes_with_them(files, run_file):
    for bad in (2**31, -(2**31) - 1, 2**32, 3 * 10**9):
        (refusal,) = run_file(files("narrow")[2], [{"ids": np.ones((2, 3), np.int64), "raw": np.full((2, 3), bad)}])
        assert isinstance(refusal, str)
        assert "gather" in refusal.lower()


def test_inputs_have_types_of_model(files):
    from edge_embed.inspection.tflite_file import read_tflite

    expected = {"recurrent": {"ids": "int64"}, "bags": {"tags": "int64", "user": "int32", "features": "float32"}}
    for name, types in expected.items():
        for inputs in read_tflite(files(name)[2]).signatures.values():
            assert {port.name: port.dtype for port in inputs} == types


def test_inputs_of_other_sizes_are_refused(files, run_file):
    _, _, path, _ = files("encoder")
    feeds = {"ids": np.ones((1, 9), np.int64), "mask": np.ones((1, 9), np.float32)}
    (refusal,) = run_file(path, [feeds])
    assert "got ids [1, 9], mask [1, 9], expected the sizes of a signature" in refusal


@pytest.mark.parametrize("name", ["encoder", "bags"])
def test_delegate_takes_every_use_in_every_signature(files, name):
    from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate

    model, saved, path, report = files(name)
    delegate = load_delegate(str(edge_embed.get_delegate_path()))
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(str(path), experimental_delegates=[delegate], experimental_op_resolver_type=plain)
    kernels = [operator for operator in interpreter._get_ops_details() if operator["op_name"] == "DELEGATE"]
    assert len(kernels) == 2  # of the first signature
    program = load(saved)
    for signature, sizes in report.signatures.items():
        case = list(inputs_of(program, sizes))
        found = interpreter.get_signature_runner(signature)(
            **{declared.name: value.numpy() for declared, value in zip(program.inputs, case, strict=True)}
        )
        with torch.no_grad():
            expected = model(*case).numpy()
        (got,) = found.values()
        assert np.abs(got - expected).max() <= 1e-6 * np.abs(expected).max()
