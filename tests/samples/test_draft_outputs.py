"""The sample of draft models: its layers take no more bytes than given, and its figures are those of the layers."""

import pytest
import torch
from torch import nn

pytest.importorskip("scipy", reason="scipy, which has the intervals, is missing: pip install 'edge-embed[bench]'")

import draft_outputs

N, D = 400, 32


@pytest.fixture(scope="module")
def case() -> draft_outputs.Case:
    torch.manual_seed(0)
    target = nn.Linear(D, N)
    with torch.no_grad():
        target.bias.copy_(-torch.arange(N) / 40)  # low ids are likely
    counts = (10_000 * target.bias.softmax(0)).long()
    return draft_outputs.Case("words", target, counts, torch.randn(300, D), torch.randn(300, D))


@pytest.mark.parametrize("method", draft_outputs.METHODS)
def test_layers_take_no_more_bytes_than_given(case: draft_outputs.Case, method: str) -> None:
    nbytes = case.nbytes // 4
    made = draft_outputs.METHODS[method](case, nbytes, 0)
    assert len(made) == (2 if "frequent" in method else 1)  # an eighth of the ids would fit as floats
    assert all(0.5 * nbytes < draft_outputs.bytes_of(layer) <= nbytes for layer in made)


def test_bytes_are_those_of_table_bias_and_map(case: draft_outputs.Case) -> None:
    (layer,) = draft_outputs.trimmed(case, case.nbytes // 4, 0)
    ids = len(layer.target_ids)
    packed = layer.output.embedding.to_packed()
    assert draft_outputs.bytes_of(layer) == packed.nbytes + layer.output.bias.nbytes + layer.d2t.nbytes
    assert layer.target_ids.tolist() == list(range(ids))
    (whole,) = draft_outputs.METHODS["dpq, all ids"](case, case.nbytes // 4, 0)
    assert draft_outputs.bytes_of(whole) == whole.embedding.to_packed().nbytes + 4 * N


def test_number_of_ids_is_chosen_by_training_text(case: draft_outputs.Case) -> None:
    made = draft_outputs.METHODS["tiered, frequent ids"](case, case.nbytes // 4, 0)
    rows = list(draft_outputs._measured(case, "tiered, frequent ids", 4, 1))
    assert [row["method"].rpartition(" ")[2] for row in rows] == ["greedy", "sampled"]
    for row in rows:
        figure = row["method"].rpartition(" ")[2]
        best = max(made, key=lambda layer: getattr(case.acceptance(layer, case.training), figure))
        assert row["ids"] == [best.output.out_features]
        assert row[figure]["mean"] == getattr(case.acceptance(best, case.test), figure)


def test_report_has_a_line_for_each_row(case: draft_outputs.Case) -> None:
    rows = [*draft_outputs._measured(case, "trimmed, 8 bits", 4, 2)]
    text = draft_outputs.markdown({"command": "python x", "rows": rows})
    assert f"| words | trimmed, 8 bits | 4x | {rows[0]['bytes']:,} | {rows[0]['ids'][0]} | " in text
