"""ANT's training with all its parts at once, resumed, compiled, under autocast and in two processes."""

import io
from pathlib import Path

import pytest
import torch
from torch import distributed, nn

from edge_embed.layers.anchor_search import AnchorSearch
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.ant_terms import orthogonality, overlap
from edge_embed.layers.bag import ANTEmbeddingBag
from edge_embed.layers.pairs import entries
from edge_embed.layers.penalty_schedule import PenaltySchedule
from edge_embed.layers.proximal import ProximalOptimizer
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.layers.yogi import Yogi

from ..forked import run_processes

ANCHOR_IDS = torch.tensor([3, 5, 8])
RELATED = torch.tensor([[1, 2, 8, 11], [3, 5, 4, 3]])  # 11 never occurs
UNRELATED = torch.tensor([[1, 4], [2, 9]])
BATCHES = torch.randint(0, 10, (12, 4, 5), generator=torch.Generator().manual_seed(1))


class Language(nn.Module):
    """One table for input and output; padding is 0, and 10 and 11 never occur."""

    def __init__(self) -> None:
        super().__init__()
        self.words = ANTEmbedding(12, 6, 3, padding_idx=0)
        self.encoder = nn.Linear(6, 6)
        self.output = TiedOutput(self.words, bias=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits = self.output(self.encoder(self.words(ids[:, :-1])))
        return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


class Classifier(nn.Module):
    """A classifier of bags of words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = ANTEmbeddingBag(12, 6, 3, mode="mean", padding_idx=0)
        self.classes = nn.Linear(6, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.classes(self.words(ids)), ids[:, 0] % 3)


MODELS = {"language": Language, "classifier": Classifier}


class Training:
    """A model, its optimiser and its schedule, with steps that can be saved in between."""

    def __init__(self, make: type[nn.Module] = Language) -> None:
        torch.manual_seed(0)
        self.model = make()
        self.words = self.model.words.start_from(ANCHOR_IDS, torch.randn(3, 6))
        unpenalized = {self.words: entries(RELATED, ANCHOR_IDS)}
        self.optimizer = ProximalOptimizer(Yogi(self.model.parameters()), self.model, 0, unpenalized)
        self.schedule = PenaltySchedule(self.optimizer, {2: 0.0, 6: 0.3})
        self.call = self.model

    def run(self, batches: torch.Tensor) -> "Training":
        for batch in batches:
            self.optimizer.zero_grad()
            loss = self.call(batch) + 1e-2 * orthogonality(self.words) + 1e-2 * overlap(self.words, UNRELATED)
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
        return self

    def parts(self) -> dict[str, object]:
        return {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}


def assert_same(one: nn.Module, other: nn.Module, **tolerance: float) -> None:
    for (name, got), expected in zip(one.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(got, expected, msg=lambda text, name=name: f"{name}: {text}", **tolerance)


@pytest.fixture(params=MODELS)
def make(request: pytest.FixtureRequest) -> type[nn.Module]:
    return MODELS[request.param]


def test_words_that_never_occur_keep_related_entries_and_padding_stays_zero():
    """11 is related to the first anchor, 10 to none."""
    training = Training(Classifier).run(BATCHES)
    transform = training.words.transform.detach()
    assert transform[11, 0] > 0
    assert not transform[11, 1:].any()
    assert not transform[[0, 10]].any()
    assert transform[1:10].any()
    assert (transform >= 0).all()
    assert not training.words(torch.tensor([[0]])).any()


def test_run_resumed_equals_uninterrupted_run(make):
    whole = Training(make).run(BATCHES)
    first = Training(make).run(BATCHES[:5])
    buffer = io.BytesIO()
    torch.save({name: part.state_dict() for name, part in first.parts().items()}, buffer)
    buffer.seek(0)
    saved = torch.load(buffer, weights_only=True)
    second = Training(make)
    for name, part in second.parts().items():
        part.load_state_dict(saved[name])
    second.run(BATCHES[5:])
    assert_same(second.model, whole.model, rtol=0, atol=0)
    assert second.optimizer.penalty == whole.optimizer.penalty == 0.3


@pytest.mark.slow
def test_compiled_step_equals_plain_step(make):
    torch._dynamo.reset()
    plain, compiled = Training(make), Training(make)
    compiled.call = torch.compile(compiled.model, fullgraph=True, backend="aot_eager")
    assert_same(compiled.run(BATCHES).model, plain.run(BATCHES).model)


def test_autocast_leaves_first_steps_nearly_unchanged(make):
    training, start = Training(make), Training(make)
    with torch.autocast("cpu", torch.bfloat16):
        training.run(BATCHES[:2])
    plain = Training(make).run(BATCHES[:2])
    assert {parameter.dtype for parameter in training.model.parameters()} == {torch.float32}
    moved = (training.words.anchors - start.words.anchors).abs().max()
    assert (training.words.anchors - plain.words.anchors).abs().max() < 0.1 * moved


def _one_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    training, half = Training(), BATCHES[:, 2 * rank : 2 * rank + 2]  # of each batch
    search = AnchorSearch(training.optimizer, 0.5)
    training.call = nn.parallel.DistributedDataParallel(training.model)
    training.run(half[:6])
    torch.manual_seed(rank)  # new anchors differ until rank 0 sends its own
    assert search.step(1.0)
    training.call = nn.parallel.DistributedDataParallel(training.model)
    training.run(half[6:])
    torch.save(training.model.state_dict(), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="torch is built without gloo")
@pytest.mark.slow
def test_processes_end_with_same_table_as_one_process(tmp_path: Path) -> None:
    """The mean of the gradients of two halves is the gradient of the whole; each process makes the same proximal step.

    This also holds after an anchor was added, for which the model is wrapped again.
    """
    run_processes(_one_rank, (str(tmp_path),))
    ranks = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    for name in ranks[0]:
        assert torch.equal(ranks[0][name], ranks[1][name]), name
    training = Training().run(BATCHES[:6])
    torch.manual_seed(0)
    AnchorSearch(training.optimizer, 0.5).step(1.0)
    whole = training.run(BATCHES[6:]).model.state_dict()
    assert whole["words.transform"].shape == (12, 4)
    assert (whole["words.transform"] == 0).any()
    for name, expected in whole.items():
        torch.testing.assert_close(ranks[0][name], expected)
