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
    """A file of our own to damage, and its rows."""
    path = tmp_path / "model.onnx"
    shutil.copy(one_table.path, path)
    return path, one_table.trained(torch.from_numpy(IDS))[0].tobytes()


def used_value(packed: object) -> int:
    """The byte of a value that some row uses: its sign and exponent."""
    code = int(packed.codes_of(0)[0])
    return code * packed.values[0, 0].nbytes + 3


def test_without_damage_all_is_equal(copied):
    path, expected = copied
    assert set(outputs(path).values()) == {expected}


@pytest.mark.parametrize(("byte", "bit"), [(0, 0), (1, 3), (10, 1), (25, 0)])
def test_a_flipped_bit_of_a_code_changes_rows(copied, flip_bit, byte, bit):
    path, expected = copied
    flip_bit(path, "embedding.codes", byte, bit)
    damaged = outputs(path)
    assert len(set(damaged.values())) == 1  # all paths read the same table
    assert expected not in damaged.values()


@pytest.mark.parametrize("bit", [0, 5])
def test_a_flipped_bit_of_a_value_changes_rows(copied, one_table, flip_bit, bit):
    path, expected = copied
    flip_bit(path, "embedding.values", used_value(one_table.lowered.tables["embedding"]), bit)
    damaged = outputs(path)
    assert len(set(damaged.values())) == 1
    assert expected not in damaged.values()


def test_hostile_codes_read_the_last_code_of_their_group(copied, one_table):
    """11 codes in 4 bits: 15 is none. Kernel and body clamp alike, and read no other group."""
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
def test_a_wrong_attribute_is_an_error_or_changes_rows(copied, attribute):
    """Both forms of the operator read the attributes: none is decoration."""
    path, expected = copied
    model = onnx.load(path)
    (stored,) = [item for item in model.graph.node[0].attribute if item.name == attribute]
    stored.i -= 1
    path.write_bytes(model.SerializeToString())
    for portable in (False, True):
        try:
            rows = create_session(path, portable).run(None, {"ids": IDS})[0].tobytes()
        except Exception:  # refused: as good
            continue
        assert rows != expected, portable
