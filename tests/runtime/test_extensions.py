"""Files with operators of onnxruntime-extensions: they are recognised, and a missing package names the extra."""

import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import edge_embed
from edge_embed.runtime.extensions import needs_extensions


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    """Return a model with an operator of onnxruntime-extensions, and a weight that contains the name of its domain."""
    node = helper.make_node("StringLower", ["text"], ["lower"], domain="ai.onnx.contrib")
    values = [helper.make_tensor_value_info(name, TensorProto.STRING, [None]) for name in ("text", "lower")]
    weight = helper.make_tensor("weight", TensorProto.STRING, [1], [b"B\x11ai.onnx.contrib"])
    graph = helper.make_graph([node], "lower", [values[0]], [values[1]], [weight])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.contrib", 1)]
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opsets), tmp_path / "lower.onnx")
    return tmp_path / "lower.onnx"


def test_file_needs_extensions_only_if_it_imports_them(lower: Path) -> None:
    assert needs_extensions(lower)
    model = onnx.load(lower)
    del model.opset_import[1]
    onnx.save(model, lower)
    assert not needs_extensions(lower)


def test_damaged_file_needs_no_extensions(lower: Path, tmp_path: Path) -> None:
    for content in (b"", b"\x80", b"\xff" * 40, b"\x42\xff\xff\xff\xff\x0f", lower.read_bytes()[:30]):
        (tmp_path / "damaged.onnx").write_bytes(content)
        assert not needs_extensions(tmp_path / "damaged.onnx")


@pytest.mark.parametrize("portable", [False, True])
def test_session_registers_extensions(lower: Path, portable: bool) -> None:
    pytest.importorskip("onnxruntime_extensions", reason="an extra is missing: pip install 'edge-embed[tokenizer]'")
    assert edge_embed.create_session(lower, portable).run(None, {"text": ["AB"]})[0].tolist() == ["ab"]


def test_session_without_extensions_package_names_extra(lower: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime_extensions", None)
    with pytest.raises(edge_embed.EdgeEmbedError, match=r'pip install "edge-embed\[tokenizer\]"'):
        edge_embed.create_session(lower)
