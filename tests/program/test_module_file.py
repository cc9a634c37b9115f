"""Plain ``torch.save`` files: torch.nn and edge_embed layers load; others are refused and named."""

import io
import logging
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attacks
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.serialization import get_safe_globals

from edge_embed.errors import BadInputError
from edge_embed.layers.ant_mixture import ANTMixtureEmbedding
from edge_embed.layers.bag import ANTMixtureEmbeddingBag, TREmbeddingBag
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.tr import TREmbedding
from edge_embed.program.input_spec import parse_input
from edge_embed.program.load import load_program

IDS = "input:int64[batch,words]"


def table() -> DPQEmbedding:
    return DPQEmbedding(20, 8, 5, 2)


def load(path: Path, *inputs: str, allow_pickle: bool = False) -> Any:
    return load_program(path, [parse_input(text) for text in inputs], allow_pickle)


def saved(path: Path, value: Any) -> Path:
    torch.save(value, path)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.pt"


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = table()

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.Sequential(table(), nn.Linear(8, 4), nn.ReLU()), IDS),
        (table, "ids:int32[batch]"),
        (lambda: table().freeze(), "ids:int64[]"),
        (lambda: TREmbedding(20, 8, 2), "ids:int64[batch]"),
        (lambda: TREmbeddingBag(20, 8, 2, padding_idx=0).freeze(), IDS.replace("input", "ids")),
        (lambda: ANTMixtureEmbedding(20, 8, (2, 3)), "ids:int64[batch]"),
        (lambda: ANTMixtureEmbeddingBag(20, 8, (2, 3)).freeze(), IDS.replace("input", "ids")),
        (lambda: nn.Sequential(table(), nn.GRU(8, 8, batch_first=True)), IDS),
        (lambda: nn.Sequential(table(), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)), IDS),
        (lambda: nn.Sequential(table(), nn.TransformerEncoderLayer(8, 2, 16, activation="gelu")), IDS),
        (lambda: nn.Sequential(table(), nn.TransformerEncoderLayer(8, 2, 16, activation=F.silu)), IDS),
        (lambda: nn.Sequential(table(), nn.Flatten(1), nn.Linear(40, 3)), "input:int64[batch,5]"),
    ],
)
def test_torch_layers_are_loaded(make: Callable[[], nn.Module], text: str, path: Path) -> None:
    torch.manual_seed(0)
    model = make().eval()
    program = load(saved(path, model), text)
    spec = parse_input(text)
    assert [(item.name, item.dtype, item.shape) for item in program.inputs] == [(spec.name, spec.dtype, spec.shape)]
    result = model(*program.example_inputs)
    expected = result if isinstance(result, tuple) else (result,)
    for got, wanted in zip(program.run(*program.example_inputs), expected, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-6, rtol=1e-6)


def test_user_class_is_named_with_remedies(path: Path) -> None:
    with pytest.raises(BadInputError, match=r"requires .*Own.*edge_embed\.save.*--allow-pickle, which runs code"):
        load(saved(path, Own()), "ids:int64[batch]")


def test_allow_pickle_warns_of_code(path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    import sys
    import types

    module = types.ModuleType("own_models")
    module.Own = Own  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_models", module)
    monkeypatch.setattr(Own, "__module__", "own_models")
    with caplog.at_level(logging.WARNING):
        program = load(saved(path, Own()), "ids:int64[batch]", allow_pickle=True)
    assert "runs code from the file" in caplog.text
    assert program.inputs[0].shape == ("batch",)


def test_allow_pickle_without_class_names_import(path: Path, monkeypatch: Any) -> None:
    saved(path, nn.Sequential(Own()))
    monkeypatch.delattr(f"{Own.__module__}.Own")
    with pytest.raises(BadInputError, match="can be imported here"):
        load(path, IDS, allow_pickle=True)


def test_inputs_that_are_missing_are_requested_with_example(path: Path) -> None:
    saved(path, nn.Sequential(table()))
    with pytest.raises(
        BadInputError,
        match=r"got no inputs, expected .*: input\..*--input input:int64\[batch,sequence\]",
    ):
        load(path)
    with pytest.raises(BadInputError, match=r"got ids, expected .*: input\."):
        load(path, "ids:int64[batch]")
    with pytest.raises(BadInputError, match="duplicate name in"):
        load(path, IDS, IDS)


def test_program_brings_its_own_inputs(path: Path) -> None:
    path.write_bytes(attacks.pack(attacks.clean()))
    assert load(path).output_names == ("logits", "sides")
    with pytest.raises(BadInputError, match="remove --input"):
        load(path, IDS)


def test_dimension_fixed_by_model_is_refused(path: Path) -> None:
    saved(path, nn.Sequential(table(), nn.Flatten(1), nn.Linear(40, 3)))
    with pytest.raises(BadInputError, match="cannot be traced"):
        load(path, IDS)


# --- files without a module -------------------------------------------------------------------------------


def scripted() -> bytes:
    """Return the layout of a TorchScript archive."""
    return attacks.pack({"data.pkl": b"x", "constants.pkl": b"x", "code/__torch__.py": b"x"}, "model/")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is empty"),
        (b"no model at all", "is neither a saved model nor"),
        (pickle.dumps([1], protocol=2), "a pickle, which torch.save did not write"),
        ((24).to_bytes(8, "little") + b'{"a":{}}' + bytes(40), "safetensors file"),
        (b"\x08\x0a\x12\x07pytorch" + bytes(40), "ONNX file"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(40), "TFLite file"),
        (scripted(), "TorchScript archive"),
        (attacks.pack({"a": b"x"}), "zip archive of 1 files"),
        (b"PK\x03\x04" + bytes(100), "damaged"),
    ],
)
def test_files_of_other_kinds_are_named(content: bytes, match: str, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=match) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_folders_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is an empty folder"):
        load(tmp_path)
    with pytest.raises(BadInputError, match="no such file"):
        load(tmp_path / "none.pt")


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (nn.Linear(2, 2).state_dict(), "weights without a model.*edge_embed.save"),
        ({"model": nn.Linear(2, 2).state_dict(), "epoch": 3}, "weights without a model"),
        (torch.zeros(3), "contains one tensor, torch.float32 \\[3\\], and no model"),
        ([1, 2], "contains no tensors, but a list, expected a state_dict"),
    ],
)
def test_saved_objects_that_are_no_module_are_refused(value: Any, match: str, path: Path) -> None:
    with pytest.raises(BadInputError, match=match):
        load(saved(path, value), IDS)


# --- hostile ---------------------------------------------------------------------------------------------


def test_payload_of_pickle_does_not_run(path: Path, tmp_path: Path) -> None:
    path.write_bytes(attacks.pickled(tmp_path / "canary"))
    with pytest.raises(BadInputError, match=r"requires .*mkdir: refused"):
        load(path, IDS)
    assert sorted(tmp_path.iterdir()) == [path]


def _hooked() -> nn.Module:
    model = nn.Sequential(table())
    model._forward_hooks[0] = nn.Identity()  # type: ignore[assignment]
    return model


def _shadowing() -> nn.Module:
    model = nn.Sequential(table())
    model.__dict__["forward"] = F.relu
    return model


def _stranger() -> nn.Module:
    model = nn.Sequential(table())
    model._modules["0"] = F.relu  # type: ignore[assignment]
    return model


def _wide() -> nn.Module:
    model = nn.Linear(2, 2)
    model.weight = nn.Parameter(torch.zeros(1, 1).expand(2**15, 2**15))
    return model


def _meta() -> nn.Module:
    return nn.Linear(2, 2, device="meta")


def _incomplete() -> nn.Module:
    model = nn.Sequential(table())
    del model.__dict__["_modules"]
    return model


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (_hooked, "has hooks"),
        (_shadowing, "replaces its own method 'forward'"),
        (_stranger, "expected a supported layer"),
        (_wide, "exceeds the file of"),
        (_meta, "meta_tensor"),
        (_incomplete, "refused"),
    ],
)
def test_tampered_layers_are_refused(make: Callable[[], nn.Module], match: str, path: Path) -> None:
    with pytest.raises(BadInputError, match=match):
        load(saved(path, make()), IDS)


def test_user_allow_list_is_neither_used_nor_lost(path: Path) -> None:
    with torch.serialization.safe_globals([Own]):
        with pytest.raises(BadInputError, match="Own"):
            load(saved(path, Own()), "ids:int64[batch]")
        assert Own in get_safe_globals()
    assert Own not in get_safe_globals()
    assert nn.Linear not in get_safe_globals()


class _Calls:
    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("call", [_Calls(nn.Linear, 2**20, 2**20), _Calls(bytearray, 2**40)])
def test_pickle_cannot_allocate_memory(call: Any, path: Path) -> None:
    model = nn.Sequential(table())
    model._modules["0"] = call
    with pytest.raises(BadInputError, match=r"constructor of a layer|builtins.bytearray"):
        load(saved(path, model), IDS)


def test_compressed_bomb_is_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data.pkl", bytes(1 << 20))
    with pytest.raises(BadInputError, match="compressed"):
        load(path, IDS)


def test_truncation_and_flipped_bits_are_noticed(path: Path) -> None:
    file = io.BytesIO()
    torch.save(nn.Sequential(table()), file)
    data = file.getvalue()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        stored = archive.read("archive/data.pkl")
    begin = data.index(stored)
    for at in range(0, len(data), 197):
        path.write_bytes(data[:at])
        with pytest.raises(BadInputError):
            load(path, IDS)
    for at in range(begin, begin + len(stored), 41):
        damaged = bytearray(data)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(BadInputError, match="checksum"):
            load(path, IDS)
