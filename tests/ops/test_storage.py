"""Storage of weights: types of files, and rounding that refuses an overflow to infinity."""

import numpy as np
import pytest
import torch

from edge_embed.errors import BadInputError
from edge_embed.ops.storage import rounded, stored_array


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_stored_array_of_unsupported_type_is_refused(dtype):
    with pytest.raises(BadInputError, match=rf"{dtype}.*call \.float\(\)"):
        stored_array(torch.zeros(1, 2, 3, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_stored_array_is_contiguous(dtype):
    weight = torch.randn(2, 4, 3).to(dtype).transpose(0, 1)
    array = stored_array(weight)
    assert array.flags.c_contiguous
    assert np.array_equal(array, weight.numpy())
    assert array.dtype == weight.numpy().dtype


def test_rounded_gives_nearest_float16_and_refuses_overflow():
    weight = torch.tensor([1.0, 1e-9, 1 + 2**-11])
    assert torch.equal(rounded(weight, "float16"), torch.tensor([1.0, 0.0, 1.0], dtype=torch.float16))
    assert rounded(weight, "float32").equal(weight)
    with pytest.raises(BadInputError, match=r"not finite in float16 \(largest number 65504\.0\): use float32"):
        rounded(torch.tensor([70000.0]), "float16")
    with pytest.raises(BadInputError, match="'int4', expected one of float32, float16"):
        rounded(weight, "int4")
