"""Models for onnxruntime-web, and the targets that run them if they can."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.layers.attention import use_sparse_attention
from edge_embed.layers.bag import ANTEmbeddingBag
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.layers.tt import TTEmbedding
from edge_embed.lowering.graph import lower_program
from edge_embed.program.capture import write_archive
from edge_embed.program.reader import read_program
from edge_embed.targets.catalog import make_target
from edge_embed.targets.target import NotRunError, RunOptions, Subject
from edge_embed.targets.web.package import fetch_runtime
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.model_inputs import make_cases
from edge_embed.validation.model_paths import compare_target
from edge_embed.validation.options import ValidationOptions

from ...endless import endless_loop, loop_tensors

NAMES = ("node", "browser")
QUICK = RunOptions(iterations=2, time_limit=60)


@pytest.fixture(scope="session")
def ready() -> dict[str, str]:
    """Return why each target cannot run here, empty if it can."""
    reasons = {}
    for name in NAMES:
        lacks = make_target(name).lacks()
        reasons[name] = "; ".join(f"{problem.what}: {problem.remedy}" for problem in lacks)
    if not all(reasons.values()):
        try:
            fetch_runtime(300)
        except NotRunError as error:
            return dict.fromkeys(NAMES, str(error))
    return reasons


@pytest.fixture(params=NAMES)
def target(request, ready):
    if ready[request.param]:
        pytest.skip(ready[request.param])
    return make_target(request.param)


@pytest.fixture
def browser(ready):
    if ready["browser"]:
        pytest.skip(ready["browser"])
    return make_target("browser")


@pytest.fixture
def temporary(monkeypatch):
    """Redirect everything temporary to one folder, which is thus in the command line of every process."""
    with tempfile.TemporaryDirectory(prefix="ee", dir="/tmp") as folder:  # another test has a long path
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def processes(folder: Path, word: str = "") -> list[int]:
    """Return the ids of live processes with a folder and a word in their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and word in line:
            found.append(int(path.parent.name))
    return found


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = DPQEmbedding(600, 48, 16, 8, variant="vq", padding_idx=0)
        self.encoder = nn.GRU(48, 16, batch_first=True)
        self.tags = nn.Linear(16, 5)

    def forward(self, ids):
        states, _ = self.encoder(self.words(ids))
        return {"tags": self.tags(states), "padded": ids == 0}


class HalfTagger(Tagger):
    def __init__(self):
        super().__init__()
        self.words.freeze(value_type="float16")


class Half(nn.Module):
    """A model with float16 outputs too."""

    def __init__(self):
        super().__init__()
        self.words = DPQEmbedding(600, 48, 16, 8).half()

    def forward(self, ids, scale):
        return self.words(ids) * scale


class Classifier(nn.Module):
    """Bags of a compressed table and of a dense one."""

    def __init__(self):
        super().__init__()
        self.words = ANTEmbeddingBag(500, 24, 10, mode="mean", padding_idx=0)
        self.others = nn.EmbeddingBag(500, 24, mode="sum")
        self.classes = nn.Linear(24, 4)
        with torch.no_grad():
            self.words.transform.copy_(torch.rand(500, 10) * (torch.rand(500, 10) < 0.3))

    def forward(self, ids):
        return self.classes(self.words(ids) + self.others(ids))


class Suggestions(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = TTEmbedding(1000, 32, rank=8)
        self.encoder = nn.LSTM(32, 32, batch_first=True)
        self.output = TiedOutput(self.words, bias=True)

    def forward(self, ids):
        states, _ = self.encoder(self.words(ids))
        return self.output.topk(states[:, -1], 5)


class Reader(nn.Module):
    """A compressed table under attention whose alphas are learned, and under sparsemax attention."""

    def __init__(self):
        super().__init__()
        self.words = DPQEmbedding(600, 48, 16, 8, variant="vq", padding_idx=0)
        first, second = (nn.TransformerEncoderLayer(48, 4, 64, batch_first=True) for _ in range(2))
        self.layers = nn.ModuleList([first, second])
        use_sparse_attention(first, "learned")
        use_sparse_attention(second, "sparsemax")

    def forward(self, ids):
        states = self.words(ids)
        for layer in self.layers:
            states = layer(states, src_key_padding_mask=ids == 0)
        return states


IDS = torch.tensor([[17, 4, 256], [3, 0, 99]])
MODELS = {
    "DPQ and GRU": (Tagger, (IDS,), "never"),
    "DPQ and GRU, external data": (Tagger, (IDS,), "always"),
    "values in float16": (HalfTagger, (IDS,), "never"),
    "float16 throughout": (Half, (IDS, torch.tensor(1.5, dtype=torch.float16)), "never"),
    "bags of ANT and a dense table": (Classifier, (IDS,), "never"),
    "TT, tied output layer, top-k": (Suggestions, (IDS,), "never"),
    "sparse attention": (Reader, (IDS,), "never"),
}


@pytest.fixture(scope="session")
def subjects(tmp_path_factory):
    """Return a function that exports each model at its first call."""
    made = {}

    def make(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("model")
            torch.manual_seed(0)
            model, example, external = MODELS[name]
            with (folder / "model.pt").open("wb") as file:
                write_archive(model(), file, example)
            program = read_program(folder / "model.pt")
            export_onnx(lower_program(program), folder / "model.onnx", external)
            exported = ExportedModel(folder / "model.onnx")
            made[name] = Subject(exported.path, program, exported.files[1:])
        return made[name]

    return make


def compare(target, subject, options=QUICK):
    cases, _ = make_cases(subject.program, np.random.default_rng(0))
    chosen = ValidationOptions().for_weights(
        half=any(b.dtype == torch.float16 for b in subject.program.module.buffers())
    )
    feeds = [case.feeds(subject.program) for case in cases]
    return compare_target(target, subject, cases, feeds, chosen, options)


def run(target, model, outputs, feeds, options=QUICK):
    subject = Subject(model, SimpleNamespace(output_names=outputs))
    with target.prepare(subject, options) as prepared:
        return prepared.run([feeds], options)


def small_model(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "small", inputs, outputs, initializers)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("elsewhere", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


@pytest.fixture
def endless(tmp_path):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    loop, tensors = endless_loop("x", "y"), loop_tensors()
    return small_model(tmp_path / "endless.onnx", [loop], ends[:1], ends[1:], tensors)


ONE = {"x": np.ones(1, np.float32)}
