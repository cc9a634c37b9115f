"""Weights alone, with a function that makes their model."""

import sys

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file, save_model

from edge_embed import BadInputError
from edge_embed.cli import main
from edge_embed.program.input_spec import parse_input
from edge_embed.program.load import load_program
from edge_embed.program.state_dict import import_factory, load_into

SOURCE = """
from torch import nn
import edge_embed

class Tagger(nn.Module):
    def __init__(self, rows=30):
        super().__init__()
        self.words = edge_embed.DPQEmbedding(rows, 8, 4, 2, variant="vq")
        self.tags = nn.Linear(8, 3)

    def forward(self, ids):
        return self.tags(self.words(ids))

def make():
    return Tagger()

def larger():
    return Tagger(40)

def cores(rows=30):
    return edge_embed.TTEmbedding(rows, 8, 2, row_shape=(3, 4, 3), col_shape=(2, 2, 2))

def fewer_cores():
    return cores(29)

def leaving():
    raise SystemExit(7)

def broken():
    raise ValueError("no such corpus")

def nothing():
    return None

number = 3
"""
INPUT = "ids:int64[batch,sequence]"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "tagger_of_test.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("tagger_of_test", None)


def factory(folder, name="make"):
    return import_factory(f"tagger_of_test:{name}")


@pytest.mark.parametrize("kind", ["state_dict", "checkpoint", "safetensors", "frozen"])
def test_weights_are_loaded_into_model(folder, kind):
    torch.manual_seed(1)
    model = factory(folder)().eval()
    if kind == "frozen":
        model.words.freeze()
    path = folder / "weights.pt"
    if kind == "safetensors":
        save_file(model.state_dict(), path)
    else:
        torch.save({"epoch": 3, "state_dict": model.state_dict()} if kind == "checkpoint" else model.state_dict(), path)
    program = load_program(path, [parse_input(INPUT)], factory=factory(folder))
    ids = torch.randint(0, 30, (3, 7))
    torch.testing.assert_close(program.run(ids)[0], model(ids))
    assert program.source == path
    assert str(tuple(program.inputs[0].shape)) == "('batch', 'sequence')"


def test_command_line_imports_model_from_current_folder(folder, monkeypatch):
    """``python`` would find the user's module there too; sys.path is restored."""
    torch.save(factory(folder)().state_dict(), folder / "weights.pt")
    torch.save(factory(folder)(), folder / "module.pt")
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    before = list(sys.path)
    del sys.modules["tagger_of_test"]
    options = ["export", "module.pt", "--target", "onnx", "--allow-pickle", "--input", INPUT]
    done = CliRunner().invoke(main, options)
    assert done.exit_code == 0, done.output
    del sys.modules["tagger_of_test"]
    options = ["--model", "tagger_of_test:make", "--input", INPUT]
    done = CliRunner().invoke(main, ["export", "weights.pt", "--target", "onnx", *options])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, ["validate", "weights.pt", "weights.onnx", "--iterations", "2", *options])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, ["export", "weights.pt", "--target", "onnx", "--force"])
    assert done.exit_code == 2
    assert "--model package.module:function" in done.output
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tagger_of_test", "expected package.module:function"),
        ("tagger_of_test:", "expected package.module:function"),
        (":make", "expected package.module:function"),
        ("../tagger_of_test:make", "expected package.module:function"),
        ("no_such_module_at_all:make", "cannot be imported .*ModuleNotFoundError"),
        ("tagger_of_test:other", "has no function other"),
        ("tagger_of_test:number", "has no function number"),
    ],
)
def test_missing_factory_functions_are_named(folder, name, message):
    with pytest.raises(BadInputError, match=message):
        import_factory(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("larger", r"size mismatch for words.query.*\[30, 8\].*\[40, 8\]"),
        ("broken", "ValueError: no such corpus"),
        ("leaving", "SystemExit: 7"),
        ("nothing", "returned a NoneType"),
    ],
)
def test_factory_functions_that_do_not_fit_are_refused(folder, name, message):
    torch.save(factory(folder)().state_dict(), folder / "weights.pt")
    with pytest.raises(BadInputError, match=message):
        load_into(factory(folder, name), folder / "weights.pt")


def test_cores_of_another_number_of_rows_are_refused(folder):
    torch.save({"state_dict": factory(folder, "cores")().state_dict()}, folder / "weights.pt")
    assert load_into(factory(folder, "cores"), folder / "weights.pt").num_embeddings == 30
    with pytest.raises(BadInputError, match="num_embeddings 30 from the checkpoint, 29 in the current model"):
        load_into(factory(folder, "fewer_cores"), folder / "weights.pt")


def test_chosen_set_of_weights_is_named(folder, caplog):
    model, average = factory(folder)(), factory(folder)()
    torch.save({"ema": average.state_dict(), "model": model.state_dict(), "optimizer": {}}, folder / "weights.pt")
    loaded = load_into(factory(folder), folder / "weights.pt")
    assert torch.equal(loaded.words.query, model.words.query)
    assert "loads the weights of 'model', not of 'ema'" in caplog.text


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod."])
def test_prefix_of_wrapper_is_dropped(folder, prefix):
    model = factory(folder)()
    torch.save({prefix + name: tensor for name, tensor in model.state_dict().items()}, folder / "weights.pt")
    assert torch.equal(load_into(factory(folder), folder / "weights.pt").words.query, model.words.query)


def test_files_without_weights_are_refused(folder):
    path = folder / "weights.pt"
    for content in ([1, 2], {"epoch": 3}):
        torch.save(content, path)
        with pytest.raises(BadInputError, match=r"contains no tensors, but a .*, expected a state_dict"):
            load_into(factory(folder), path)
    torch.save({"words": torch.zeros(2)}, path)
    with pytest.raises(BadInputError, match=r"Missing key.*Unexpected key"):
        load_into(factory(folder), path)
    path.write_bytes(b"PK rubbish")
    with pytest.raises(BadInputError, match="damaged"):
        load_into(factory(folder), path)
    with pytest.raises(BadInputError, match="there is no such file"):
        load_program(folder / "absent.pt", [parse_input(INPUT)], factory=factory(folder))


def test_flipped_bit_is_noticed(folder):
    torch.save(factory(folder)().state_dict(), folder / "weights.pt")
    content = (folder / "weights.pt").read_bytes()
    at = content.index(b"data/0")
    for bit in range(0, 8 * 600, 37):
        damaged = bytearray(content)
        damaged[at + bit // 8] ^= 1 << bit % 8
        (folder / "weights.pt").write_bytes(damaged)
        try:
            weights = load_into(factory(folder), folder / "weights.pt").state_dict()
        except BadInputError:
            continue
        (folder / "weights.pt").write_bytes(content)  # padding between members: nothing was lost
        sound = load_into(factory(folder), folder / "weights.pt").state_dict()
        assert all(torch.equal(weights[name], sound[name]) for name in sound)


TIED = """
from torch import nn
import edge_embed

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = edge_embed.TTEmbedding(30, 8, rank=2)
        self.output = edge_embed.TiedOutput(self.words)

    def forward(self, ids):
        return self.output(self.words(ids))
"""


def test_tied_table_may_be_stored_under_one_name(folder):
    (folder / "tagger_of_test.py").write_text(TIED)
    make = factory(folder, "Model")
    model = make().eval()
    save_model(model, folder / "weights.safetensors")
    program = load_program(folder / "weights.safetensors", [parse_input(INPUT)], factory=make)
    ids = torch.randint(0, 30, (2, 3))
    torch.testing.assert_close(program.run(ids)[0], model(ids))


class Attack:
    def __reduce__(self):
        return (sys.modules["os"].mkdir, ("attacked",))


def test_code_in_file_does_not_run(folder):
    torch.save({"words.query": Attack()}, folder / "weights.pt")
    with pytest.raises(BadInputError, match=r"contains no tensors, but a .*, expected a state_dict"):
        load_into(factory(folder), folder / "weights.pt")
    assert not (folder / "attacked").exists()
