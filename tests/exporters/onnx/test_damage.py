"""The tests of this folder can fail: one flipped bit of a table gives other rows on every path."""

import shutil

import numpy as np
import onnx
import pytest
import torch

from edge_embed.runtime.session import create_session
from edge_embed.targets.reference import open_reference

IDS = np.arange(20).reshape(4, 5)


def outputs(path: object) -> dict[str, bytes]:
    sessions = {
        "library": create_session(path),
        "portable": create_session(path, portable=True),
        "reference": open_reference(path),
    }
    return {way: session.run(None, {"ids": IDS})[0].tobytes() for way, session in sessions.items()}


@pytest.fixture
def copied(one_table, tmp_path):
    """Return a copied file to damage, and its rows."""
    path = tmp_path / "model.onnx"
    shutil.copy(one_table.path, path)
    return path, one_table.trained(torch.from_numpy(IDS))[0].tobytes()


def used_value(packed: object) -> int:
    """Return the position of the sign and exponent byte of a value that some row uses."""
    code = int(packed.codes_of(0)[0])
    return code * packed.values[0, 0].nbytes + 3


def test_rows_without_damage_are_equal_on_all_paths(copied):
    path, expected = copied
    assert set(outputs(path).values()) == {expected}


@pytest.mark.parametrize(("byte", "bit"), [(0, 0), (1, 3), (10, 1), (25, 0)])
def test_code_with_flipped_bit_changes_rows(copied, flip_bit, byte, bit):
    path, expected = copied
    flip_bit(path, "embedding.codes", byte, bit)
    damaged = outputs(path)
    assert len(set(damaged.values())) == 1  # all paths read the same table
    assert expected not in damaged.values()


@pytest.mark.parametrize("bit", [0, 5])
def test_value_with_flipped_bit_changes_rows(copied, one_table, flip_bit, bit):
    path, expected = copied
    flip_bit(path, "embedding.values", used_value(one_table.lowered.tables["embedding"]), bit)
    damaged = outputs(path)
    assert len(set(damaged.values())) == 1
    assert expected not in damaged.values()


def test_codes_out_of_range_read_last_code_of_group(copied, one_table):
    """4 bits hold 15, beyond 11 codes; kernel and body clamp it alike and read no other group."""
    path, _ = copied
    model = onnx.load(path)
    (codes,) = [tensor for tensor in model.graph.initializer if tensor.name == "embedding.codes"]
    codes.raw_data = b"\xff" * len(codes.raw_data)
    path.write_bytes(model.SerializeToString())
    values = one_table.lowered.tables["embedding"].values
    expected = np.tile(values[:, -1].reshape(-1), (20, 1))
    expected[19] = 0
    assert set(outputs(path).values()) == {expected.tobytes()}


@pytest.mark.parametrize("attribute", ["bits", "num_codes", "num_groups", "padding_idx"])
def test_attribute_with_wrong_value_raises_or_changes_rows(copied, attribute):
    """Both forms of the operator read every attribute."""
    path, expected = copied
    model = onnx.load(path)
    (stored,) = [item for item in model.graph.node[0].attribute if item.name == attribute]
    stored.i -= 1
    path.write_bytes(model.SerializeToString())
    for portable in (False, True):
        try:
            rows = create_session(path, portable).run(None, {"ids": IDS})[0].tobytes()
        except Exception:  # an error is accepted
            continue
        assert rows != expected, portable
