"""The same model gives the same bytes anywhere, and they hold no trace of the machine or the source."""

import contextlib
import copy
import getpass
import os
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import onnx
import pytest
import torch

import edge_embed
from edge_embed.exporters.onnx import export as export_module
from edge_embed.exporters.onnx.export import export_onnx

_SCRIPT = '''
import torch
from torch import nn
from edge_embed.exporters.onnx.export import export_onnx
from edge_embed import ANTEmbedding, ANTEmbeddingBag, DPQEmbedding, TiedOutput, TTEmbedding
from edge_embed.lowering.graph import lower_program
from edge_embed.program.capture import write_archive
from edge_embed.program.reader import read_program
from pathlib import Path


class SecretArchitecture(nn.Module):
    """secret docstring"""

    def __init__(self):
        super().__init__()
        self.word, self.tag = DPQEmbedding(500, 12, 16, 3), DPQEmbedding(30, 12, 5, 4, "vq", padding_idx=0)
        self.lstm, self.rnn = nn.LSTM(12, 6, batch_first=True), nn.RNN(12, 6, batch_first=True)
        self.dense, self.head = nn.Embedding(30, 12), nn.Linear(12, 4)
        self.anchored, self.cores = ANTEmbedding(30, 12, 5), TTEmbedding(30, 12, 3)
        self.bag, self.output = ANTEmbeddingBag(30, 12, 5, mode="max"), TiedOutput(self.cores, bias=True)

    def forward(self, ids, tags):
        secret_variable = self.word(ids) + self.tag(tags) + self.dense(tags)  # secret comment
        secret_variable = secret_variable + self.anchored(tags) + self.cores(tags) + self.bag(tags).unsqueeze(1)
        states = torch.cat([self.lstm(secret_variable)[0], self.rnn(secret_variable)[0]], -1)
        return {"words": self.output(secret_variable), "logits": self.head(states)}


torch.manual_seed(0)
ids = torch.randint(0, 30, (2, 3))
with open("model.pt", "wb") as file:
    write_archive(SecretArchitecture(), file, (ids, ids.clone()), vocabulary=[str(i) for i in range(30)],
                  metadata={"task": "none", "licence": "any"})
lowered = lower_program(read_program(Path("model.pt")))
export_onnx(lowered, Path("model.onnx"), "never")
export_onnx(lowered, Path("outside.onnx"), "always")
'''


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Run one script in two folders, with different hash seeds: in a new process and in this one."""
    made = [tmp_path_factory.mktemp(f"secretfolder{at}" * at) for at in (1, 2)]
    for at, folder in enumerate(made, 1):
        (folder / f"secret_script_{at}.py").write_text(_SCRIPT)
    environment = {**os.environ, "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1", "TZ": "UTC1"}
    command = [sys.executable, "secret_script_1.py"]
    done = subprocess.run(command, cwd=made[0], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    with contextlib.chdir(made[1]):
        runpy.run_path("secret_script_2.py", run_name="__main__")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.pt", "model.onnx", "outside.onnx", "outside.onnx.data"])
def test_export_in_two_processes_writes_same_bytes(folders, name):
    first, second = ((folder / name).read_bytes() for folder in folders)
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.pt", "model.onnx", "outside.onnx"])
def test_export_holds_no_trace_of_machine_or_source(folders, name):
    """No folders, user, script, class, variables or comments are found; archive members are stored uncompressed."""
    path = folders[0] / name
    content = path.read_bytes()
    if name.endswith(".pt"):
        with zipfile.ZipFile(path) as archive:
            assert all(member.compress_type == zipfile.ZIP_STORED for member in archive.infolist())
    assert b"word" in content  # control: the search finds text that is there
    for trace in ("secret", "Secret", "__main__", str(folders[0]), "/tmp", str(Path.home()), ".py", "site-packages",
                  f"/{getpass.getuser()}", sys.prefix, "nn_module_stack", "stack_trace"):  # fmt: skip
        assert trace.encode() not in content, trace


def test_export_twice_gives_same_bytes(one_table, tmp_path):
    for name in ("a.onnx", "b.onnx"):
        export_onnx(one_table.lowered, tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes() == one_table.path.read_bytes()


def test_export_of_test_module_leaves_no_trace(export, make_table, add_up):
    exported = export(add_up(make_table(), make_table(16)))
    for path in (exported.path, exported.path.with_name("model.pt")):
        content = path.read_bytes()
        for trace in (add_up.__name__, "conftest", ".py", str(path.parent), str(Path(export_module.__file__).parent)):
            assert trace.encode() not in content, (path.name, trace)


@pytest.mark.slow
def test_metadata_holds_tables_and_vocabulary(folders):
    model = onnx.load(folders[0] / "model.onnx")
    properties = {item.key: item.value for item in model.metadata_props}
    assert {key.partition(".")[0] for key in properties} == {"edge_embed"}
    assert properties["edge_embed.vocabulary"].startswith('["0"')
    assert "licence" in properties["edge_embed.metadata"]
    assert "sha256" in properties["edge_embed.tables"]
    assert model.producer_name == "edge-embed"
    assert not model.doc_string
    assert not model.graph.doc_string


def test_exporter_prints_and_logs_nothing(one_table, tmp_path, capfd, recwarn, caplog):
    with caplog.at_level("WARNING"):
        export_onnx(one_table.lowered, tmp_path / "quiet.onnx")
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
    assert not caplog.records


def test_exporter_leaves_model_unchanged(make_table, tmp_path):
    model = torch.nn.Sequential(make_table(), torch.nn.Dropout().eval())  # beside a table in training
    before = copy.deepcopy(model)
    edge_embed.export(model, "onnx", tmp_path / "model.onnx", torch.tensor([[1, 2, 3]]), open=False)
    torch.testing.assert_close(model.state_dict(), before.state_dict(), rtol=0, atol=0)
    assert [layer.training for layer in model] == [True, False]
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
