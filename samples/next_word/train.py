"""Training of the next-word model: cross entropy, Adam, one cycle of the learning rate."""

import math

import torch
from model import NextWord
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor
from torch.nn import functional
from vocabulary import PADDING, UNKNOWN

from edge_embed.layers.regularization import regularization_loss

_BATCH = 32
_RATE = 1e-2
# Every word of the training text is known, so words hidden at random train the row of <unk>.
_HIDDEN_SHARE = 0.02


def train(model: NextWord, rows: Tensor, validation: Tensor, epochs: int, seed: int) -> None:
    """Train in place, with a progress bar.

    Args:
        model: model in any state; its weights change.
        rows: ids, int64 [rows, length + 1].
        validation: the same for text that is never trained on.
        epochs: passes over the rows.
        seed: random seed of the order of rows and of hidden words.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    steps = epochs * math.ceil(len(rows) / _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps, pct_start=0.2)
    with _bar() as bar:
        task = bar.add_task("training", total=steps, note="")
        for epoch in range(epochs):
            model.train()
            for batch in rows[torch.randperm(len(rows), generator=generator)].split(_BATCH):
                hidden = torch.rand(batch.shape, generator=generator) < _HIDDEN_SHARE
                ids = batch.masked_fill(hidden & (batch != PADDING), UNKNOWN)
                optimizer.zero_grad()
                loss = _loss(model, ids[:, :-1], batch[:, 1:]) + regularization_loss(model)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                bar.advance(task)
            note = f"perplexity after epoch {epoch + 1}: {perplexity(model, validation):.0f} (validation)"
            bar.update(task, note=note)


@torch.no_grad()
def perplexity(model: NextWord, rows: Tensor) -> float:
    """Return the perplexity of the next word in eval mode, exp of the mean cross entropy.

    Other words count as <unk>.
    """
    model.eval()
    total, count = 0.0, 0
    for batch in rows.split(_BATCH):
        targets = batch[:, 1:]
        words = int((targets != PADDING).sum())
        total += float(_loss(model, batch[:, :-1], targets)) * words
        count += words
    return math.exp(total / count)


def _loss(model: NextWord, ids: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross entropy of ids and targets [batch, sequence], a scalar; padding is ignored."""
    logits = model(ids)  # [batch, sequence, answers]
    known = targets.where(targets < logits.shape[-1], UNKNOWN)
    return functional.cross_entropy(logits.flatten(0, 1), known.flatten(), ignore_index=PADDING)


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
