"""Values that a packed table cannot hold are refused with the name of the table."""

import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.layers.dpq import DPQEmbedding


class Model(nn.Module):
    def __init__(self, table: DPQEmbedding) -> None:
        super().__init__()
        self.word = table

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.word(ids)


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
@pytest.mark.parametrize(
    ("variant", "name"),
    [("sx", name) for name in ("query", "key", "value", "running_mean", "running_var")]
    + [("vq", "query"), ("vq", "value")],
)
def test_weights_that_are_not_finite_are_refused(lower, name, variant, bad):
    layer = DPQEmbedding(20, 12, 5, 3, variant)
    with torch.no_grad():
        getattr(layer, name).view(-1)[-1] = bad
    with pytest.raises(BadInputError, match=rf"^table word: {name}.*(NaN|infinity)"):
        lower(Model(layer))


def test_query_that_is_not_finite_is_refused_with_row(lower):
    layer = DPQEmbedding(70_000, 4, 4, 2)
    with torch.no_grad():
        layer.query[65_537, 1] = float("nan")
    with pytest.raises(BadInputError, match="table word: query row 65537 contains NaN or infinity: train"):
        lower(Model(layer))


def test_frozen_values_that_are_not_finite_are_refused(lower):
    layer = DPQEmbedding(20, 12, 5, 3).freeze()
    layer.value[1, 2, 3] = float("inf")
    with pytest.raises(BadInputError, match=r"^table word: .*group 1, code 2, column 3"):
        lower(Model(layer))


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("value_scales", torch.tensor([1.0, float("nan"), 1]), "value_scales: group 1: got nan, expected a positive"),
        ("value_scales", torch.tensor([1.0, 1, 0]), "value_scales: group 2: got 0.0"),
        ("value_scales", torch.ones(3, dtype=torch.float16), r"value_scales: got float16 \[3\], expected float32"),
        (
            "value_scales",
            torch.ones(3, dtype=torch.bfloat16),
            "weights are torch.bfloat16, expected float32 or float16",
        ),
        ("value_scales", torch.ones(1), r"value_scales: got float32 \[1\], expected float32 \[3\]"),
        ("value_scales", None, r"tensors: got \['codes', 'values'\] with int8 values"),
        ("value", torch.full((3, 5, 4), -128, dtype=torch.int8), "values: group 0, code 0, column 0: got -128"),
        ("value", torch.ones(3, 5, 4), r"tensors: got .*'value_scales'\] with float32 values"),
    ],
)
def test_frozen_int8_values_that_are_invalid_are_refused(lower, name, tensor, message):
    layer = DPQEmbedding(20, 12, 5, 3).freeze("int8")
    setattr(layer, name, tensor)
    with pytest.raises(BadInputError, match=f"^table word: {message}"):
        lower(Model(layer))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("frozen", [False, True])
def test_value_types_not_supported_are_refused_with_remedy(lower, dtype, frozen):
    layer = DPQEmbedding(20, 12, 5, 3)
    if frozen:
        layer.freeze()
    with pytest.raises(BadInputError, match=rf"^table word: weights are {dtype}.*call \.float\(\)"):
        lower(Model(layer.to(dtype)))


@pytest.mark.parametrize(
    ("byte", "value", "message"),
    [
        (0, 0b101, "row 7, group 0: got code 5, expected 0 to 4"),
        (1, 0b1000_0000, "row 7: got spare bits"),
    ],
)
def test_frozen_codes_that_are_invalid_are_refused(lower, byte, value, message):
    """A row has 3 codes of 3 bits, 9 bits in 2 bytes."""
    layer = DPQEmbedding(20, 12, 5, 3).freeze()
    layer.codes[7] = 0
    layer.codes[7, byte] = value
    with pytest.raises(BadInputError, match=f"^table word: codes: {message}"):
        lower(Model(layer))


def test_frozen_padding_row_that_is_not_zero_is_refused(lower):
    layer = DPQEmbedding(20, 12, 5, 3, padding_idx=7).freeze()
    layer.codes[7, 0] = 1
    with pytest.raises(BadInputError, match=r"^table word: codes: row 7 \(padding\), group 0"):
        lower(Model(layer))


def test_second_table_is_named_if_first_is_valid(lower):
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.good, self.bad = DPQEmbedding(20, 12, 5, 3), DPQEmbedding(20, 12, 5, 3)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.good(ids) + self.bad(ids)

    model = Two()
    with torch.no_grad():
        model.bad.value[0] = float("nan")
    with pytest.raises(BadInputError, match=r"^table bad: value"):
        lower(model)
