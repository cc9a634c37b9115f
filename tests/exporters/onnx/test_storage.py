"""The writer: aligned external weights, streamed inline weights, and existing files."""

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx import storage
from edge_embed.exporters.onnx.export import export_onnx

DTYPES = [np.float32, np.float16, np.float64, ml_dtypes.bfloat16, np.int64, np.int32, np.uint8, np.int8, np.bool_]
# Sizes on either side of the limits: external from 1,024 bytes, streamed or page-aligned from 64 KB.
SIZES = [0, 1, 255, 256, 257, 16_383, 16_384, 16_385]


def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    made = {f"{np.dtype(dtype).name}_{size}": random.integers(0, 2, size).astype(dtype) for dtype in DTYPES
            for size in (*SIZES, 70_000)}  # fmt: skip
    made["matrix"] = random.standard_normal((300, 400)).astype(np.float32).T  # not contiguous
    made["scalar"] = np.array(3.5, np.float32)
    return made


def ir_model(tensors: dict[str, np.ndarray]) -> ir.Model:
    graph = onnx.parser.parse_graph("g (float[n] x) => (float[n] y) { y = Identity(x) }")
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    model = ir.from_proto(proto)
    for name, array in tensors.items():
        value = ir.Value(name=name, const_value=ir.Tensor(array, name=name))
        model.graph.register_initializer(value)
    return model


def assert_holds(path: Path, expected: dict[str, np.ndarray]) -> None:
    onnx.checker.check_model(str(path), full_check=True)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    assert stored.keys() == expected.keys()
    for name, array in expected.items():
        assert stored[name].dtype == array.dtype, name
        assert stored[name].shape == array.shape, name
        assert stored[name].tobytes() == array.tobytes(), name


def places(path: Path) -> dict[str, dict[str, int]]:
    """Return offset and length of every external tensor."""
    found = {}
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entry = {item.key: item.value for item in tensor.external_data}
            assert entry["location"] == path.name + ".data"
            found[tensor.name] = {"offset": int(entry["offset"]), "length": int(entry["length"])}
    return found


def test_streamed_weights_are_read_back_bit_for_bit(tmp_path):
    path = tmp_path / "model.onnx"
    storage.write_model(ir_model(arrays()), path, None)
    assert_holds(path, arrays())
    assert sum(array.nbytes for array in arrays().values()) < path.stat().st_size
    ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_external_weights_are_aligned_and_read_back_bit_for_bit(tmp_path):
    path = tmp_path / "model.onnx"
    storage.write_model(ir_model(arrays()), path, storage.weights_file(path))
    assert_holds(path, arrays())
    outside, end = places(path), 0
    for name, array in arrays().items():
        assert (name in outside) == (array.nbytes >= 1024), name
    for name, place in sorted(outside.items(), key=lambda item: item[1]["offset"]):
        assert place["length"] == arrays()[name].nbytes
        assert place["offset"] % (4096 if place["length"] >= 1 << 16 else 64) == 0, name
        assert end <= place["offset"] < end + 4096
        end = place["offset"] + place["length"]
    assert storage.weights_file(path).stat().st_size == end
    ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.fixture
def lowered(large_table):
    """Return a lowered table with more than 64 KB of codes and few values."""
    return large_table.lowered


def test_external_data_option_decides_weights_file(lowered, tmp_path):
    path = tmp_path / "x.onnx"
    for external_data, outside in (("auto", False), ("never", False), ("always", True)):
        written = export_onnx(lowered, path, external_data, force=True)
        assert written.files == ((path, storage.weights_file(path)) if outside else (path,))
        assert storage.weights_file(path).exists() == outside
        assert bool(places(path)) == outside
        onnx.checker.check_model(str(path), full_check=True)


def test_external_data_auto_goes_outside_above_threshold(lowered, tmp_path, monkeypatch):
    size = lowered.tables["embedding"].nbytes
    for threshold, count in ((size, 1), (size - 1, 2)):
        monkeypatch.setattr(storage, "AUTO_THRESHOLD", threshold)
        assert len(export_onnx(lowered, tmp_path / f"{threshold}.onnx").files) == count


def test_external_data_never_is_refused_beyond_protobuf_limit(lowered, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "PROTOBUF_LIMIT", 1000)
    with pytest.raises(
        BadInputError,
        match=r"bytes of weights exceed the limit of one ONNX file.*--external-data "
        r"auto",
    ):
        export_onnx(lowered, tmp_path / "x.onnx", "never")
    assert list(tmp_path.glob("x.onnx*")) == []


def test_external_data_of_small_weights_makes_no_second_file(export, make_table):
    assert len(export(make_table(num_codes=2), None, "always").file.files) == 1


def test_export_forced_removes_old_weights_file(lowered, tmp_path):
    path = tmp_path / "x.onnx"
    export_onnx(lowered, path, "always")
    export_onnx(lowered, path, "never", force=True)
    assert [item.name for item in tmp_path.glob("x.*")] == ["x.onnx"]


@pytest.mark.parametrize("before", [b"", b"no onnx file", None])
def test_foreign_file_with_weights_name_stays(lowered, tmp_path, before):
    path = tmp_path / "x.onnx"
    if before is not None:
        path.write_bytes(before)
    storage.weights_file(path).write_bytes(b"precious")
    export_onnx(lowered, path, "never", force=True)
    assert storage.weights_file(path).read_bytes() == b"precious"


@pytest.mark.parametrize("existing", ["x.onnx", "x.onnx.data"])
def test_existing_files_are_refused_and_kept(lowered, tmp_path, existing):
    (tmp_path / existing).write_bytes(b"precious")
    with pytest.raises(BadInputError, match=rf"{existing}: exists.*--force"):
        export_onnx(lowered, tmp_path / "x.onnx", "always")
    assert (tmp_path / existing).read_bytes() == b"precious"
    assert len(list(tmp_path.glob("x.onnx*"))) == 1


def test_missing_folder_is_named_in_error(lowered, tmp_path):
    with pytest.raises(BadInputError, match="nowhere is not an existing directory; create it first"):
        export_onnx(lowered, tmp_path / "nowhere" / "x.onnx")


def test_failed_write_leaves_old_file(lowered, tmp_path, monkeypatch):
    path = tmp_path / "x.onnx"
    export_onnx(lowered, path, "always")
    before = path.read_bytes(), storage.weights_file(path).read_bytes()

    def broken(*arguments: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr("edge_embed.exporters.onnx.export.write_model", broken)
    for external_data in ("always", "never"):
        with pytest.raises(RuntimeError, match="in the middle"):
            export_onnx(lowered, path, external_data, force=True)
        assert (path.read_bytes(), storage.weights_file(path).read_bytes()) == before


def test_weights_of_other_types_are_written_unchanged(export, make_table):
    """float16, float64 and bfloat16 layers keep their bytes."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = make_table()
            self.narrow, self.wide = nn.Linear(12, 40_000).half(), nn.Linear(12, 5000).double()
            self.register_buffer("shift", torch.randn(40_000).bfloat16())

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            rows = self.embedding(ids)
            wide, shift = self.wide(rows.double()).sum(-1), self.shift.float().sum()
            return self.narrow(rows.half()).float().sum(-1) + wide + shift

    for external_data in ("never", "always"):
        exported = export(Mixed(), None, external_data)
        stored = [numpy_helper.to_array(tensor) for tensor in onnx.load(exported.path).graph.initializer]
        found = {(array.dtype.name, array.tobytes()) for array in stored}
        model = exported.model
        assert ("float16", model.narrow.weight.detach().t().numpy().tobytes()) in found  # [in, out] in ONNX
        assert ("float64", model.wide.weight.detach().t().numpy().tobytes()) in found
        assert ("bfloat16", model.shift.view(torch.int16).numpy().tobytes()) in found
