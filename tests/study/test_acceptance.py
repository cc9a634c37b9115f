"""Acceptance of drafted tokens, by definition and by sampling."""

import numpy as np
import pytest
import torch

from edge_embed import BadInputError, IdOutOfRangeError
from edge_embed.study import acceptance as module
from edge_embed.study.acceptance import Acceptance, acceptance


def test_acceptance_of_known_distributions() -> None:
    target = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]).log()
    draft = torch.tensor([[0.2, 0.6, 0.2], [0.3, 0.3, 0.4]]).log()
    found = acceptance(target, draft)
    assert found.greedy == 0.5
    assert found.sampled == pytest.approx(((0.2 + 0.3 + 0.2) + (0.1 + 0.1 + 0.4)) / 2)


def test_ids_that_draft_lacks_are_never_accepted() -> None:
    target = torch.tensor([[[0.5, 0.3, 0.2]], [[0.2, 0.5, 0.3]]]).log()
    draft = torch.tensor([[[0.4, 0.6]], [[0.9, 0.1]]]).log()
    found = acceptance(target, draft, torch.tensor([2, 1]))
    assert found.greedy == 0  # ids 1 and 2, where the target has 0 and 1
    assert found.sampled == pytest.approx(((0.2 + 0.3) + (0.3 + 0.1)) / 2)
    assert acceptance(target, target).greedy == 1
    assert acceptance(target, target).sampled == pytest.approx(1)


def test_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    target, draft, ids = torch.randn(5, 7, 20), torch.randn(5, 7, 6), torch.randperm(20)[:6]
    whole = acceptance(target, draft, ids)
    monkeypatch.setattr(module, "_BLOCK", 50)  # two positions
    blocks = acceptance(target, draft, ids)
    assert blocks.greedy == whole.greedy
    assert blocks.sampled == pytest.approx(whole.sampled, rel=1e-12)


def test_tokens_are_those_of_simulated_decoding() -> None:
    torch.manual_seed(0)
    rate, drafted, steps = 0.7, 4, 200_000
    is_accepted = torch.rand(steps, drafted) < rate
    mean = 1 + float(is_accepted.long().cumprod(1).sum(1).double().mean())  # drafted ones, then one of the target
    assert Acceptance(rate, 0.0).tokens(drafted) == pytest.approx(mean, abs=0.02)
    assert Acceptance(1.0, 0.0).tokens(drafted) == drafted + 1
    assert Acceptance(1.0, 0.0).tokens(drafted, sampled=True) == 1


def test_sampled_acceptance_is_that_of_the_algorithm() -> None:
    torch.manual_seed(0)
    target, draft = torch.randn(8), torch.randn(8)
    p, q = target.softmax(0), draft.softmax(0)
    tokens = q.multinomial(400_000, replacement=True)
    share = float((torch.rand(len(tokens)) < p[tokens] / q[tokens]).double().mean())
    assert acceptance(target, draft).sampled == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize(
    ("target", "draft", "ids", "said"),
    [
        ((3, 5), (2, 5), None, "got logits"),
        ((0, 5), (0, 5), None, "at least one"),
        ((3, 5), (3, 4), None, "got 4 draft logits for 5"),
        ((3, 5), (3, 4), [0, 1, 2], "got ids .3. for 4 logits"),
    ],
)
def test_logits_that_do_not_fit_are_refused(
    target: tuple[int, ...], draft: tuple[int, ...], ids: list[int] | None, said: str
) -> None:
    given = None if ids is None else torch.tensor(ids)
    with pytest.raises(BadInputError, match=said):
        acceptance(torch.zeros(target), torch.zeros(draft), given)


def test_masked_ids_are_never_accepted() -> None:
    masked = torch.tensor([[0.0, 0.0, -torch.inf]])
    found = acceptance(torch.zeros(1, 3), masked)
    assert found.sampled == pytest.approx(2 / 3)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_logits_without_numbers_are_refused(wrong: float) -> None:
    logits = torch.zeros(3, 4)
    with pytest.raises(BadInputError, match="got logits with NaN or infinity, or only masked ones"):
        acceptance(logits, torch.cat([logits[:2], torch.full((1, 4), wrong)]))
    with pytest.raises(BadInputError, match="got logits with NaN or infinity, or only masked ones"):
        acceptance(torch.cat([logits[:2], torch.full((1, 4), wrong)]), logits)


def test_logits_of_other_types_are_refused() -> None:
    logits = torch.zeros(3, 4)
    for wrong in (None, [1.0], np.zeros((3, 4)), torch.tensor(1.0), logits.long(), logits.to("meta")):
        with pytest.raises(BadInputError, match=r"target: got .*, expected logits in memory, float \[\*, ids\]"):
            acceptance(wrong, logits)
        with pytest.raises(BadInputError, match="draft: got"):
            acceptance(logits, wrong)
    with pytest.raises(BadInputError, match="target_ids: got 2 more than once"):
        acceptance(logits, logits[:, :2], torch.tensor([2, 2]))


def test_certain_drafts_take_all_tokens() -> None:
    assert acceptance(torch.randn(50, 7), torch.randn(50, 7)).sampled <= 1
    logits = torch.randn(50, 7)
    assert acceptance(logits, logits).tokens(10**9, sampled=True) <= 10**9 + 1
    assert Acceptance(0.5, 0.5).tokens(10**9) == 2


def test_ids_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(IdOutOfRangeError, match="id 5 is out of range"):
        acceptance(torch.zeros(1, 5), torch.zeros(1, 2), torch.tensor([0, 5]))
    with pytest.raises(BadInputError, match="drafted"):
        Acceptance(0.5, 0.5).tokens(0)
