"""Tiered tables in the TFLite delegate: rows, output layers and refusals."""

from pathlib import Path

import numpy as np
import pytest
from ort_nodes import assert_same_bits
from tflite_models import manifest, rows_model

from edge_embed.exporters.onnx.nodes.tiered import TIERED
from edge_embed.packed.tiered import PackedTiered

from .ort_packed import Packed
from .test_ort_tiered import CASES


class Tiered(Packed):
    """A table whose file has only tensors with elements."""

    def __init__(self, packed: PackedTiered, **changed: np.ndarray) -> None:
        super().__init__(TIERED.prefix, packed, **changed)

    @property
    def rows64(self) -> np.ndarray:
        return self.packed.rows_float64(np.arange(300))

    def tensors(self) -> dict[str, np.ndarray]:
        return {name: content for name, content in super().tensors().items() if content.size}

    def line(self, **others: object) -> str:
        sizes = {
            "num_embeddings": 300,
            "padding_idx": -1 if self.packed.padding_idx is None else self.packed.padding_idx,
        }
        fields = {name: name for name in self.tensors()} | sizes
        fields["tiers"] = ",".join(str(tier.num_embeddings) for tier in self.packed.tiers)
        for number, tier in enumerate(self.packed.tiers):
            shape = {"num_codes": tier.num_codes, "num_groups": tier.num_groups, "bits": tier.bits}
            shape |= {"group_width": tier.shape.group_width, "shared": int(tier.shape.shared)}
            fields |= {f"tier_{number}_{name}": value for name, value in shape.items()}
        named = {name: value for name, value in (fields | others).items() if value is not None}
        words = [f"{name}={value}" for name, value in named.items()]
        return " ".join(["rows tiered", "ids=ids", "output=rows", *words]) + "\n"

    def write(self, path: Path, **others: object) -> Path:
        return rows_model(path / "model.tflite", self, text=manifest(self.line(**others)))


@pytest.mark.parametrize("case", CASES)
def test_tiered_rows_of_delegate_are_exact(tflite, tmp_path, case):
    table = Tiered(CASES[case])
    ids = np.arange(300, dtype=np.int32).reshape(3, 100)
    results = tflite.run(table.write(tmp_path), [ids])
    assert results.replaced == 1
    assert_same_bits(results.outputs[0][0], table.rows64[ids].astype(np.float32))


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"tiers": "20,200,79"}, "tiers must have equal columns and no padding row, and num_embeddings rows in all"),
        ({"tiers": "20,200,80,1"}, "tiers: got no list of integers, or one that is too long"),
        ({"tiers": "20,200"}, "tiers: got another number of them, expected three"),
        ({"tiers": "20,200,-80"}, "every size of a table must be at least 1"),
        ({"tier_1_values": "other"}, "tier_1_values: got no tensor of this name"),
        ({"tier_2_num_codes": None}, "tier_2_num_codes: got no integer"),
        ({"tier_map": "tier_0_row_scale_codes"}, "tier_map is shorter"),
    ],
)
def test_tiered_table_that_disagrees_is_refused_by_delegate(tflite, tmp_path, others, message):
    path = Tiered(CASES["padding"]).write(tmp_path, **others)
    tflite.refuses(path, f"edge_embed: rows of tiered, .*{message}", [np.zeros((1, 1), np.int32)])


def test_tiered_row_with_wrong_rank_is_named_by_delegate(tflite, tmp_path):
    packed = CASES["padding"]
    table = Tiered(packed, tier_ranks=np.where(np.arange(2)[:, None] == 1, 10_000, packed.tier_ranks).astype(np.int32))
    message = "the tier of a row does not exist or has no row at its place; at position 1 of the flattened ids"
    tflite.refuses(table.write(tmp_path), message, [np.array([[0, 256]], np.int32)])
