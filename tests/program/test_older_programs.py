"""Models saved before DPQ had metrics name the variant instead, and keep their meaning."""

from pathlib import Path

import numpy as np
import pytest
import torch

from edge_embed.inspection.program_file import inspect_program
from edge_embed.lowering.graph import lower_program
from edge_embed.program.reader import read_program

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("variant", ["sx", "vq"])
def test_older_trainable_tables_keep_rows(variant):
    """12 rows of 6 columns, 5 codes in each of 3 groups, statistics shared by groups, row 1 is padding."""
    program = read_program(GOLDEN / f"dpq_{variant}_program.pt")
    names = ["query", "value", "running_mean", "running_var", *(["key"] if variant == "sx" else [])]
    weights = {name: program.module.weight(f"words.{name}").double() for name in names}
    query = weights["query"].reshape(12, 3, 1, 2)
    key = weights.get("key", weights["value"])  # [D, K, s]
    distance = (query * key).sum(-1) if variant == "sx" else -((query - key) ** 2).sum(-1)  # [n, D, K]
    codes = ((distance - weights["running_mean"]) / (weights["running_var"] + 1e-5).sqrt()).argmax(-1)  # [n, D]
    expected = torch.stack([weights["value"][j, codes[:, j]] for j in range(3)], 1).flatten(1).float()
    expected[1] = 0
    (rows,) = program.run(torch.arange(12).reshape(1, 12))
    assert torch.equal(rows[0], expected)
    (packed,) = lower_program(program).tables.values()
    assert np.array_equal(packed.rows(range(12)), expected.numpy())
    (info,) = inspect_program(GOLDEN / f"dpq_{variant}_program.pt", verify=True).tables
    assert (info.method, info.state, info.attributes["num_codes"]) == ("dpq", "trainable", 5)
