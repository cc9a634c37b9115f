"""Checkpoints of training scripts: weights beside other objects, and malicious pickles."""

import argparse
import collections
import contextlib
import datetime
import enum
import io
import pickle
import random
import struct
import sys
import time
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from edge_embed import cli
from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import inspect_file
from edge_embed.program.checkpoint import read_checkpoint
from edge_embed.program.find_weights import open_checkpoint
from edge_embed.program.load import load_program
from edge_embed.program.state_dict import load_into, load_weights


class Stage(enum.Enum):
    LATE = 3


class Attributes(dict):
    """A class like AttributeDict of Lightning."""


class Settings:
    def __init__(self) -> None:
        self.width, self.stage = 8, Stage.LATE


class Net(nn.Module):
    """A class of the user's project."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.tags = nn.Linear(8, 3)
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, ids):
        return self.tags(self.words(ids))


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


def everything_else(net: Net) -> dict[str, object]:
    """Return the objects that training scripts store beside weights."""
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.arange(3)).sum().backward()
    optimizer.step()
    return {
        "hyper_parameters": argparse.Namespace(lr=1e-3),
        "config": Attributes(width=8, inner=Attributes(depth=2)),
        "settings": Settings(),
        "best_loss": np.float64(1.5),
        "history": np.arange(6).reshape(2, 3),
        "optimizer": optimizer.state_dict(),
        "rng": [torch.get_rng_state(), np.random.get_state(), random.getstate()],
        "when": datetime.datetime(2026, 1, 2),
        "where": PurePosixPath("/runs/1"),
        "types": (torch.float16, torch.device("cpu"), torch.Size([2, 3]), Stage.LATE),
        "counts": collections.Counter("abca"),
        "lists": collections.defaultdict(list, a=[1]),
        "tags": {"a", "b"},
        "tokenizer": {"words": {"the": 0}, ("a", 1): None},
    }


def saved(path: Path, content: object, **how: object) -> Path:
    torch.save(content, path, **how)
    return path


def same(loaded: nn.Module, net: nn.Module) -> bool:
    own = net.state_dict()
    return all(torch.equal(tensor, own[name]) for name, tensor in loaded.state_dict().items())


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_weights_are_found_beside_other_objects(tmp_path, net, is_zip, protocol):
    others = everything_else(net)
    content = {**others, "state_dict": net.state_dict()}
    path = saved(tmp_path / "c.pt", content, _use_new_zipfile_serialization=is_zip, pickle_protocol=protocol)
    loaded = load_weights(Net, path)
    assert same(loaded.module, net)
    assert {part.what for part in loaded.facts.left_out} == set(others)
    (optimizer,) = (part for part in loaded.facts.left_out if part.what == "optimizer")
    assert optimizer.count == 3 * 3
    assert "argparse.Namespace" in str(loaded.facts.left_out[0])


@pytest.mark.parametrize(
    ("place", "wrap"),
    [
        ("state_dict.model", lambda weights: {"state_dict": {f"model.{name}": t for name, t in weights.items()}}),
        ("module._orig_mod", lambda weights: {f"module._orig_mod.{name}": t for name, t in weights.items()}),
        ("runs.1.generator", lambda weights: {"runs": [{}, {"generator": weights}]}),
        ("ema.shadow", lambda weights: {"ema": Attributes(shadow=weights, decay=0.9)}),
        ("net", lambda weights: {"net": {name: nn.Parameter(t) for name, t in weights.items()}}),
        ("model", lambda weights: {"model": {name: tensor.numpy() for name, tensor in weights.items()}}),
    ],
)
def test_weights_are_found_at_any_place(tmp_path, net, place, wrap):
    loaded = load_weights(Net, saved(tmp_path / "c.pt", wrap(net.state_dict())))
    assert same(loaded.module, net)
    assert loaded.facts.remarks == (f"weights below {place!r} are loaded, without that prefix",)


def test_weights_of_module_are_read_without_its_class(tmp_path, net, monkeypatch):
    path = saved(tmp_path / "c.pt", {"model": nn.DataParallel(net), "epoch": 3})
    factory = Net
    monkeypatch.delattr(sys.modules[__name__], "Net")
    assert same(load_into(factory, path), net)


def test_weights_of_several_sets_are_chosen_by_name(tmp_path, net):
    first, second = net.state_dict(), {name: tensor + 1 for name, tensor in net.state_dict().items()}
    path = saved(tmp_path / "c.pt", {"student": first, "teacher": second})
    with pytest.raises(
        BadInputError,
        match=r"contains 2 sets of weights .*'student', 'teacher': choose one with "
        "--weights",
    ):
        load_into(Net, path)
    assert torch.equal(load_weights(Net, path, "teacher").module.words.weight, second["words.weight"])
    with pytest.raises(
        BadInputError,
        match=r"--weights 'techer': the checkpoint has no tensors there, but some "
        "below 'student', 'teacher'",
    ):
        load_weights(Net, path, "techer")
    both = {"model": {**{f"net.{n}": t for n, t in first.items()}, **{f"old.{n}": t for n, t in second.items()}}}
    loaded = load_weights(Net, saved(path, both), "model.old")
    assert torch.equal(loaded.module.words.weight, second["words.weight"])


def test_modules_of_wrapper_beside_model_are_listed(tmp_path, net):
    weights = {f"model.{name}": tensor for name, tensor in net.state_dict().items()}
    path = saved(tmp_path / "c.pt", {"state_dict": {**weights, "criterion.weight": torch.ones(7)}})
    (part,) = load_weights(Net, path).facts.left_out
    assert (part.what, part.count, part.nbytes) == ("tensors of state_dict", 1, 28)
    assert "criterion.weight" in part.reason


def test_names_that_do_not_fit_are_listed_with_nearest(tmp_path, net):
    weights = {name.replace("words", "word"): tensor for name, tensor in net.state_dict().items()}
    with pytest.raises(BadInputError, match=r"Missing keys: words.weight; .*words.weight is similar to word.weight"):
        load_into(Net, saved(tmp_path / "c.pt", weights))
    more = {f"blocks.{at}.weight": torch.zeros(1) for at in range(50)}
    with pytest.raises(BadInputError, match=r"Unexpected keys: .* and 45 more"):
        load_into(Net, saved(tmp_path / "c.pt", {**net.state_dict(), **more}))


@pytest.mark.parametrize("order", ["<", ">"])
def test_numbers_of_other_byte_order_are_read(tmp_path, net, order):
    torch.save(net.state_dict(), buffer := io.BytesIO())
    with zipfile.ZipFile(buffer) as archive, zipfile.ZipFile(tmp_path / "c.pt", "w") as made:
        for member in archive.infolist():
            content = archive.read(member)
            if member.filename.endswith("byteorder"):
                content = b"big" if order == ">" else b"little"
            elif "/data/" in member.filename and order == ">":
                content = np.frombuffer(content, "<u4").byteswap().tobytes()
            made.writestr(member.filename, content)
    assert same(load_into(Net, tmp_path / "c.pt"), net)


def test_checkpoint_without_factory_names_model_option(tmp_path, net):
    for is_zip in (True, False):
        content = {"state_dict": net.state_dict(), "args": argparse.Namespace(lr=1)}
        path = saved(tmp_path / "c.pt", content, _use_new_zipfile_serialization=is_zip)
        with pytest.raises(BadInputError, match=r"contains weights without a model.*--model package.module:function"):
            load_program(path)


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("protocol", [2, 4])
def test_inspect_distinguishes_checkpoint_from_module(tmp_path, net, is_zip, protocol):
    how = {"_use_new_zipfile_serialization": is_zip, "pickle_protocol": protocol}
    for content, kind in (
        ({"model": net.state_dict(), "args": argparse.Namespace(lr=1)}, "checkpoint"),
        (collections.OrderedDict(args=argparse.Namespace(lr=1)), "checkpoint"),
        (net.state_dict(), "state_dict"),
        (net, "module"),
    ):
        assert inspect_file(saved(tmp_path / "c.pt", content, **how)).torch_save.contents == kind


def test_commands_take_weights_by_name_and_list_unused_parts(tmp_path, net, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net_of_test.py").write_text("from torch import nn\ndef make():\n    return nn.Embedding(3000, 8)\n")
    table = nn.Embedding(3000, 8).state_dict()
    saved(tmp_path / "c.pt", {"one": table, "two": {"weight": table["weight"] * 2}, "loss": np.float64(1)})
    options = ["--model", "net_of_test:make", "--input", "input:int64[batch,seq]"]
    command = ["compress", "c.pt", "-o", "o.pt", "--method", "rows", "--bits", "8", *options]
    done = CliRunner().invoke(cli.main, command)
    assert (done.exit_code, "'one', 'two': choose one with --weights" in done.output) == (2, True)
    done = CliRunner().invoke(cli.main, [*command, "--weights", "two"])
    assert done.exit_code == 0, done.output
    assert "left out: loss (not weights of the model: numpy" in done.output
    sys.modules.pop("net_of_test")


class Call:
    """An object whose pickle calls a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def archive_of(path: Path, stream: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", stream)
        archive.writestr("a/data/0", bytes(64))
    return path


def storage(numel: int, key: bytes = b"0") -> bytes:
    number = b"\x8a\x08" + struct.pack("<q", numel)
    return b"(U\x07storagectorch\nFloatStorage\nU" + bytes([len(key)]) + key + b"U\x03cpu" + number + b"tQ"


def tensor(numel: int, offset: int, size: int, stride: int) -> bytes:
    numbers = [b"\x8a\x08" + struct.pack("<q", number) for number in (offset, size, stride)]
    view = numbers[0] + numbers[1] + b"\x85" + numbers[2] + b"\x85" + b"\x89" + b"}"
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage(numel) + view + b"tR."


def colliding(at: int) -> bytes:
    """Return an integer whose hash equals that of all others from this function."""
    return b"\x8a\x10" + ((2**61 - 1) * at).to_bytes(16, "little")


class TestHostile:
    @pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
    def test_functions_named_by_pickle_are_not_called(self, tmp_path, net, protocol):
        ran = tmp_path / "ran"
        for call in (Call(Path.touch, ran), Call(exec, f"open({str(ran)!r}, 'w')"), Call(bytearray, 1 << 40)):
            stream = pickle.dumps({"a": call, "b": [call], "c": (call, {"d": call})}, protocol)
            assert set(read_checkpoint(archive_of(tmp_path / "c.pt", stream))) == {"a", "b", "c"}
        assert not ran.exists()

    def test_state_of_pickle_is_set_on_no_object(self, tmp_path):
        before = dict(vars(collections))
        stream = b"\x80\x02ccollections\nOrderedDict\n}U\x0b__setitem__Nsb."
        read_checkpoint(archive_of(tmp_path / "c.pt", stream))
        stream = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}U\x0c__defaults__Nsb."
        read_checkpoint(archive_of(tmp_path / "c.pt", stream))
        assert vars(collections) == before
        assert torch._utils._rebuild_tensor_v2.__defaults__ is not None

    @pytest.mark.parametrize(
        "stream",
        [
            b"\x80\x02" + b"]" * 500_000 + b"a" * 499_999 + b".",  # lists in lists
            b"\x80\x02" + b")" + b"\x85" * 500_000 + b".",  # tuples in tuples
            b"\x80\x02}" + b")" + b"\x85" * 300_000 + b"Ns.",  # as a key, which would be hashed
            b"\x80\x02)" + b"2\x86" * 200 + b"}" + b"q\x00" + b"N.",  # doubling
            b"\x80\x02]q\x00" + b"(h\x00h\x00lq\x00" * 200 + b".",  # lists that double
            b"\x80\x02]q\x00h\x00a.",  # a list in itself
            b"\x80\x02}(" + b"".join(colliding(at) + b"N" for at in range(20_000)) + b"u.",
        ],
        ids=["deep", "tuples", "key", "doubling", "lists", "loop", "collisions"],
    )
    def test_expensive_pickles_are_read_or_refused_within_limit(self, tmp_path, stream):
        started = time.process_time()
        with contextlib.suppress(BadInputError):
            open_checkpoint(read_checkpoint(archive_of(tmp_path / "c.pt", stream)))
        assert time.process_time() - started < 20

    @pytest.mark.parametrize(
        ("stream", "match"),
        [
            (tensor(16, 0, 17, 1), "requires 68 bytes, but 64 are stored"),
            (tensor(16, 1 << 40, 1, 1), "are stored"),
            (tensor(16, -1, 4, 1), "invalid size"),
            (tensor(16, 0, 1 << 60, 0), "expands 64 stored bytes"),
            (tensor(16, 0, 4, -1), "invalid size"),
            (b"\x80\x02U\x05otherQ.", "a storage has an invalid identifier"),
            (b"\x80\x02" + storage(16, b"../x") + b".", "member data/../x is missing"),
            (b"\x80\x02R.", "a value on an empty stack"),
            (b"\x80\x02h\x05.", "missing entry of the memo"),
            (b"\x80\x05\x97.", "is not allowed in a checkpoint"),
            (b"\x80\x02}", "damaged"),
            (b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b".", "damaged"),
        ],
    )
    def test_pickles_that_torch_never_writes_are_refused(self, tmp_path, stream, match):
        with pytest.raises(BadInputError, match=match):
            read_checkpoint(archive_of(tmp_path / "c.pt", stream))

    @pytest.mark.parametrize("depth", [1, 5000])
    def test_tensors_in_tensors_do_not_recurse(self, tmp_path, depth):
        function = b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\nq\x010"  # memoised as 1
        arguments = b")q\x000" + b"(h\x01Nh\x00Ntq\x000" * depth  # memoised as 0
        path = archive_of(tmp_path / "c.pt", function + arguments + b"h\x01h\x00R.")
        assert read_checkpoint(path).name == "torch.Tensor"

    @pytest.mark.parametrize("shift", range(4))
    def test_views_of_unaligned_numbers_are_copied_once(self, tmp_path, shift):
        view = tensor(1 << 18, 0, 4, 1)[2:-1]
        with zipfile.ZipFile(tmp_path / "c.pt", "w") as archive:
            archive.writestr("a" * (shift + 1) + "/data.pkl", b"\x80\x02]" + (view + b"a") * 1000 + b".")
            archive.writestr("a" * (shift + 1) + "/data/0", bytes(1 << 20))
        found = read_checkpoint(tmp_path / "c.pt")
        assert len({view.untyped_storage().data_ptr() for view in found}) == 1

    @pytest.mark.parametrize("is_zip", [True, False])
    def test_damaged_checkpoint_is_bad_input_only(self, tmp_path, net, is_zip):
        draw, path = random.Random(is_zip), tmp_path / "c.pt"
        content = {"model": net.state_dict(), "args": argparse.Namespace(lr=1)}
        whole = saved(path, content, _use_new_zipfile_serialization=is_zip).read_bytes()
        refused = 0
        for _ in range(300):
            damaged = bytearray(whole)
            for _ in range(draw.randint(1, 3)):
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
            path.write_bytes(damaged[: draw.choice([len(damaged), draw.randrange(len(damaged))])])
            try:
                load_into(Net, path)
            except BadInputError:
                refused += 1
        assert refused > 100
