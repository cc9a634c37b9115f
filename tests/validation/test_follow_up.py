"""Results of `validate` for files that another tool changed."""

import onnx
import pytest
from onnx import inliner

from edge_embed.errors import BadInputError
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.tables import Table, stored_checks


def details(originals, path):
    """Return the details of the first table's checks, by name."""
    name, packed = next(iter(originals["never"].lowered.tables.items()))
    return {
        check.name: check.detail
        for check in stored_checks(Table(name, packed), [], ExportedModel(path), lambda done: None)
    }


def test_file_in_ort_format_is_named(tmp_path):
    (tmp_path / "model.ort").write_bytes(b"\x14\x00\x00\x00ORTM" + bytes(64))
    with pytest.raises(BadInputError, match=r"is in ORT format, expected the \.onnx model before that conversion"):
        ExportedModel(tmp_path / "model.ort")


def test_inlined_nodes_are_named(originals, tmp_path):
    onnx.save(inliner.inline_local_functions(onnx.load(originals["never"].path)), tmp_path / "inlined.onnx")
    assert "slow path only" in details(originals, tmp_path / "inlined.onnx")["node"]
