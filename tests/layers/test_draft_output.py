"""`DraftOutput`: logits and ids of a part of the vocabulary, its map, labels, and refusals."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

import edge_embed
from edge_embed import BadInputError, DraftOutput, IdOutOfRangeError, TiedOutput, frequent_ids

N, D = 50, 12
KEPT = [3, 4, 17, 21, 30, 49]


@pytest.fixture
def target() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(D, N)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_logits_are_those_of_kept_ids(bias: bool, dtype: torch.dtype) -> None:
    target = nn.Linear(D, N, bias, dtype=dtype)
    draft = DraftOutput.from_linear(target, KEPT)
    for shape in ((D,), (3, D), (2, 4, D), (0, D)):
        hidden = torch.randn(shape, dtype=dtype)
        torch.testing.assert_close(draft(hidden), target(hidden)[..., KEPT])
    assert draft.target_ids.tolist() == KEPT


def test_map_is_that_of_checkpoints(target: nn.Linear) -> None:
    d2t = torch.tensor([id_ - row for row, id_ in enumerate(KEPT)])  # int64, as EAGLE-3 has it
    draft = DraftOutput(nn.Linear(D, len(KEPT)), d2t)
    assert torch.equal(draft.d2t, d2t)
    assert draft.state_dict().keys() == {"output.weight", "output.bias", "d2t"}
    assert torch.equal(DraftOutput.from_linear(target, KEPT).d2t, d2t.int())
    loaded = DraftOutput.from_linear(target, [0, *KEPT[1:]])
    loaded.load_state_dict(draft.state_dict())
    assert loaded.target_ids.tolist() == KEPT


@pytest.mark.parametrize("kept", [KEPT, KEPT[::-1]], ids=["ascending", "descending"])
@pytest.mark.parametrize("state", ["dense", "trained", "eval", "frozen"])
def test_topk_returns_ids_of_target(target: nn.Linear, kept: list[int], state: str) -> None:
    draft = DraftOutput.from_linear(target, kept)
    if state != "dense":
        table = edge_embed.DPQEmbedding(len(kept), D, 4, 3, variant="vq", distance_norm=False)
        draft = DraftOutput(TiedOutput(table, bias=True), draft.d2t)
        draft.train(state == "trained")
        if state == "frozen":
            table.freeze()
    hidden = torch.randn(2, 5, D)
    values, ids = draft.topk(hidden, 3)
    best = draft(hidden).topk(3)
    torch.testing.assert_close(values, best.values)
    assert torch.equal(ids, torch.tensor(kept)[best.indices])
    assert ids.dtype == torch.int64


def test_labels_leave_unknown_ids_out(target: nn.Linear) -> None:
    draft = DraftOutput.from_linear(target, KEPT[::-1])
    labels = draft.rows_of(torch.tensor([[49, 3, 0], [48, 17, 1000]], dtype=torch.int32))
    assert labels.tolist() == [[0, 5, -100], [-100, 3, -100]]
    hidden = torch.randn(2, D)
    loss = functional.cross_entropy(draft(hidden), draft.rows_of(torch.tensor([48, 17])))
    torch.testing.assert_close(loss, functional.cross_entropy(draft(hidden[1:]), torch.tensor([3])))


def test_compression_keeps_map(target: nn.Linear) -> None:
    draft = DraftOutput.from_linear(target, torch.arange(5, 45))
    small, report = edge_embed.compress(nn.Sequential(draft), "rows", modules=["0.output"], bits=8)
    assert isinstance(small[0], DraftOutput)
    assert isinstance(small[0].output, TiedOutput)
    assert report.tables[0].setting == "bits=8"
    hidden = torch.randn(20, D)
    torch.testing.assert_close(small[0](hidden), draft(hidden), atol=0.02, rtol=0)
    assert torch.equal(small[0].target_ids, torch.arange(5, 45))


def test_checkpoint_with_wrong_map_is_refused(target: nn.Linear) -> None:
    draft = DraftOutput.from_linear(target, KEPT)
    for wrong, said in (
        (torch.full((6,), -3), "got -3 for row 0, a target id below 0"),
        (-torch.arange(6), "got the target id 0 more than once"),
        (torch.arange(6.0), "got torch.float32"),
        (torch.arange(5), "got torch.int64 .5., expected int64 or int32 .6."),
    ):
        with pytest.raises(RuntimeError, match=f"d2t: {said}"):
            draft.load_state_dict(draft.state_dict() | {"d2t": wrong})
        assert draft.target_ids.tolist() == KEPT


def test_meta_layer_takes_a_checkpoint(target: nn.Linear) -> None:
    draft = DraftOutput.from_linear(target, KEPT)
    with torch.device("meta"):
        empty = DraftOutput(nn.Linear(D, len(KEPT)), torch.zeros(len(KEPT), dtype=torch.int32))
    empty.load_state_dict(draft.state_dict(), assign=True)
    hidden = torch.randn(3, D)
    assert torch.equal(empty.topk(hidden, 2).ids, draft.topk(hidden, 2).ids)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.data())
def test_frequent_ids_have_largest_counts(counts: list[int], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(counts)))
    ids = frequent_ids(counts, size).tolist()
    best = sorted(range(len(counts)), key=lambda token: (-counts[token], token))
    assert ids == sorted(best[:size])


@pytest.mark.parametrize(
    ("d2t", "said"),
    [
        (torch.zeros(3), "got torch.float32 [3], expected int64 or int32 [3]"),
        (torch.zeros(4, dtype=torch.int64), "got torch.int64 [4], expected int64 or int32 [3]"),
        ([0, 1, 2], "got a list, expected int64 or int32 [3]"),
        (torch.tensor([0, -2, 0]), "got -2 for row 1, a target id below 0"),
        (torch.tensor([2, 1, 0]), "got the target id 2 more than once; d2t is the target id minus"),
    ],
)
def test_map_of_other_ids_is_refused(d2t: object, said: str) -> None:
    with pytest.raises(BadInputError) as refused:
        DraftOutput(nn.Linear(D, 3), d2t)
    assert f"d2t: {said}" in str(refused.value)


def test_wrong_arguments_are_refused(target: nn.Linear) -> None:
    with pytest.raises(BadInputError, match=r"output: got a Embedding, expected an nn\.Linear or a TiedOutput"):
        DraftOutput(nn.Embedding(3, D), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(BadInputError, match=r"linear: got a DraftOutput, expected an nn\.Linear"):
        DraftOutput.from_linear(DraftOutput.from_linear(target, KEPT), KEPT)
    for wrong in ([[1, 2]], [], [1.5], [True], None, "ab", [[1], [2, 3]], [2**70], torch.zeros(2, device="meta")):
        with pytest.raises(BadInputError, match=r"target_ids: got .*, expected at least one integer, \[r\]"):
            DraftOutput.from_linear(target, wrong)
    with pytest.raises(BadInputError, match="target_ids: got 7 more than once, expected different ids"):
        DraftOutput.from_linear(target, [1, 7, 3, 7])
    with pytest.raises(IdOutOfRangeError, match="id 50 is out of range: expected 0 to 49"):
        DraftOutput.from_linear(target, [1, 50])
    with pytest.raises(BadInputError, match=r"size: got 4, expected at most the 3 tokens"):
        frequent_ids([1, 2, 3], 4)
    draft = DraftOutput.from_linear(target, KEPT)
    with pytest.raises(BadInputError, match="got 7"):
        draft.topk(torch.randn(D), 7)
    with pytest.raises(BadInputError, match=r"\[\*, 12\]"):
        draft(torch.randn(3, D + 1))
