"""A model that cannot be exported is refused with the cause and the remedy, and nothing is written."""

import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx import bodies
from edge_embed.workflow import check_target


@pytest.mark.parametrize("model", [nn.Sequential(nn.Embedding(20, 4), nn.Linear(4, 2)), nn.Embedding(20, 4)])
def test_model_without_compressed_table_names_compress_command(export, tmp_path, model):
    with pytest.raises(BadInputError, match=r"no compressed table.*edge-embed compress.*DPQEmbedding") as caught:
        export(model)
    assert ("embeddings found: 0" in str(caught.value)) == isinstance(model, nn.Sequential)
    assert not list(tmp_path.glob("**/*.onnx"))


def test_model_without_any_table_is_refused(export):
    with pytest.raises(BadInputError, match=r"no compressed table \(embeddings found: none\)"):
        export(nn.Linear(3, 2), torch.randn(4, 3))


class After(nn.Module):
    """A table followed by a function of its rows."""

    def __init__(self, table: nn.Module, function: object) -> None:
        super().__init__()
        self.table, self.function = table, function

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.function(self.table(ids))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda rows: torch.linalg.svd(rows)[1], r"aten\.linalg_svd"),  # refused when the saved program is read
        # Saved programs with these operators can be read; ONNX has no equivalent.
        (lambda rows: torch.cummax(rows, -1)[0], r"operator aten\.cummax\.default has no equivalent there"),
        (lambda rows: rows.masked_select(rows > 0), r"operator aten\.masked_select\.default has no equivalent"),
    ],
)
def test_operator_without_equivalent_is_named(export, make_table, tmp_path, function, name):
    with pytest.raises(BadInputError, match=name) as caught:
        export(After(make_table(), function))
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("**/*.onnx"))


def test_target_unknown_lists_known_ones():
    with pytest.raises(BadInputError, match=r"unknown target 'tflight': did you mean 'tflite'\? expected one of onnx"):
        check_target("tflight")
    check_target("onnx")


def test_float_ids_are_refused_when_saving(export, make_table):
    with pytest.raises(BadInputError, match=r"ids must be integers, got torch.float32: .*ids\.long\(\)"):
        export(make_table(), torch.zeros(2, 3))


def test_example_ids_out_of_range_are_accepted(export, make_table):
    """Tracing reads shapes only; running a wrong example raises."""
    exported = export(make_table(), torch.tensor([[99, 3]]))
    exported.assert_bit_exact(torch.tensor([[1, 2, 3]]))


def test_exporter_has_part_of_every_compression_method():
    """A method of lowering without an exporter part would fail only on the user's machine."""
    from edge_embed.lowering import graph

    assert set(bodies.METHODS) == set(graph.METHODS)
