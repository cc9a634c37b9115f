"""Output layers of draft models at equal bytes: how many of their tokens the target model accepts.

The target models are the language model of the Penn Treebank, from other authors, and that of WikiText-2, which is
trained here. Draft and target share everything but the output layer, so that only this layer loses tokens.
It is either compressed with all ids, or has only the ids that are frequent in training text, and a map. Their number
is the one of a few with the best acceptance on training text.

Usage: python samples/draft_outputs.py --data FOLDER --seeds 3
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch
from calibration import language_models
from claims import interval, shown
from options import Options, data_option, make_folder
from results import write_results
from tiers.contenders import most_that_fit
from torch import Tensor, nn

import edge_embed
from edge_embed.ops import integers
from edge_embed.report.views.markdown.blocks import join, table
from edge_embed.study.acceptance import Acceptance, acceptance

_OUTPUTS = {"Penn Treebank": "output", "WikiText-2": "words"}
_RATIOS, _QUICK_RATIOS = (8, 16, 32), (16,)
_SHARES = 2, 4, 8  # all ids / kept ids
_CONTEXT, _CHOICE = 250, 5_000  # words of a row, and of the training text that chooses
_NUMBER = 4  # bytes of a bias and of an entry of the map
_DRAFTED = 4
_BUILD = Path(__file__).parents[1] / "build" / "draft_outputs"
_FIGURES = "greedy", "sampled"


@dataclass(frozen=True)
class Case:
    """Output layer of a target model, and the hidden states before it.

    Attributes:
        name: name in reports.
        target: the output layer, [n, d], with a bias.
        counts: frequency of each id in training text, [n].
        training: hidden states of training text, [m, d].
        test: hidden states of other text, [m, d].
    """

    name: str
    target: nn.Linear
    counts: Tensor
    training: Tensor
    test: Tensor

    @torch.no_grad()
    def acceptance(self, layer: nn.Module, states: Tensor) -> Acceptance:
        """Return the acceptance of the tokens of a draft model after some hidden states."""
        ids = layer.target_ids if isinstance(layer, edge_embed.DraftOutput) else None
        return acceptance(self.target(states), layer(states), ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the dense output layer."""
        return sum(parameter.nbytes for parameter in self.target.parameters())


Contender = Callable[[Case, int, int], Sequence[nn.Module]]  # case, bytes, seed -> layers, of which one is chosen


def all_ids(method: str, **options: Any) -> Contender:
    """Return a function that compresses the whole output layer."""
    return lambda case, nbytes, seed: [
        _compressed(case.target, "draft", method, nbytes - _NUMBER * len(case.counts), seed, case.counts, **options)
    ]


def kept_ids(method: str, **options: Any) -> Contender:
    """Return a function that compresses the rows of several numbers of frequent ids."""

    def make(case: Case, nbytes: int, seed: int) -> list[nn.Module]:
        layers = []
        for share in _SHARES:
            ids = edge_embed.frequent_ids(case.counts, len(case.counts) // share)
            draft = edge_embed.DraftOutput.from_linear(case.target, ids)
            left = nbytes - 2 * _NUMBER * len(ids)
            if left >= case.target.weight[: len(ids)].nbytes:
                break  # these rows fit as floats, so that more of them are better
            layers.append(_compressed(draft, "draft.output", method, left, seed, case.counts[ids], **options))
        return layers

    return make


def _compressed(
    layer: nn.Module, name: str, method: str, nbytes: int, seed: int, counts: Tensor, **options: Any
) -> nn.Module:
    """Return a layer whose table takes at most ``nbytes``; it is the linear layer ``name``."""
    given: dict[str, Any] = {"modules": [name], "budget": nbytes, "counts": {name: counts}, "seed": seed, **options}
    small, _ = edge_embed.compress(nn.ModuleDict({"draft": layer}), method, **given)
    return small.get_submodule("draft")


def trimmed(case: Case, nbytes: int, seed: int) -> list[nn.Module]:
    """Return a layer of as many frequent ids as fit, with 8 bits a number."""
    n, dim = case.target.weight.shape
    size = most_that_fit(n, lambda rows: integers.shape_of(rows, dim, 8).nbytes + 2 * _NUMBER * rows, nbytes)
    ids = edge_embed.frequent_ids(case.counts, size)
    draft = nn.ModuleDict({"draft": edge_embed.DraftOutput.from_linear(case.target, ids)})
    small, _ = edge_embed.compress(draft, "rows", modules=["draft.output"], bits=8)
    return [small.get_submodule("draft")]


METHODS: dict[str, Contender] = {
    "trimmed, 8 bits": trimmed,
    "dpq, all ids": all_ids("dpq"),
    "tiered, all ids": all_ids("tiered", objective="logits"),
    "tiered, frequent ids": kept_ids("tiered", objective="logits"),
}


def bytes_of(layer: nn.Module) -> int:
    """Return the bytes of a layer: its packed table, bias and map."""
    output, is_draft = _output(layer), isinstance(layer, edge_embed.DraftOutput)
    return output.embedding.to_packed().nbytes + _NUMBER * output.out_features * (1 + is_draft)


def _output(layer: nn.Module) -> edge_embed.TiedOutput:
    output = layer.output if isinstance(layer, edge_embed.DraftOutput) else layer
    assert isinstance(output, edge_embed.TiedOutput)
    return output


@click.command()
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Number of seeds.")
@click.option("--quick", is_flag=True, help="Fewer words, one ratio.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=_BUILD, help="Folder for results.")
def main(data: Path, seeds: int, quick: bool, output: Path) -> None:
    """Compare output layers of draft models, and write their figures to figures.json and results.md."""
    make_folder(output)
    rows = list[dict[str, Any]]()
    command = f"python samples/draft_outputs.py --seeds {seeds}" + " --quick" * quick
    for case in _cases(Options(data, quick, 0, output)):
        for ratio in _QUICK_RATIOS if quick else _RATIOS:
            for method in METHODS:
                for row in _measured(case, method, ratio, seeds):
                    rows.append(row)
                    click.echo(f"{case.name}: {row}", err=True)
                write_results(output, command, rows, markdown)


def _cases(options: Options) -> Iterator[Case]:
    for case in language_models(options):
        target = case.model.get_submodule(_OUTPUTS[case.name])
        assert isinstance(target, nn.Linear)
        counts = case.training.bincount(minlength=target.out_features)
        states = [_states(case.model, target, words) for words in (case.training[:_CHOICE], case.test)]
        yield Case(case.name, target, counts, *states)


@torch.no_grad()
def _states(model: nn.Module, target: nn.Linear, words: Tensor) -> Tensor:
    """Return the hidden states before the output layer for words in rows of 250, [m, d]."""
    found = list[Tensor]()
    hook = target.register_forward_pre_hook(lambda _, given: found.append(given[0].flatten(0, -2)))
    model(words[: len(words) // _CONTEXT * _CONTEXT].view(-1, _CONTEXT))
    hook.remove()
    return found[0]


def _measured(case: Case, method: str, ratio: int, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of one method at a ratio, over seeds of its fit, for each way to choose the number of ids."""
    made = [METHODS[method](case, case.nbytes // ratio, seed) for seed in range(seeds)]
    choices = _FIGURES if len(made[0]) > 1 else _FIGURES[:1]
    for figure in choices:
        layers = [max(each, key=lambda layer: getattr(case.acceptance(layer, case.training), figure)) for each in made]
        found = [case.acceptance(layer, case.test) for layer in layers]
        yield {
            "model": case.name,
            "method": f"{method}, chosen for {figure}" if len(choices) > 1 else method,
            "ratio": ratio,
            "bytes": max(map(bytes_of, layers)),
            "ids": [_output(layer).out_features for layer in layers],
            **{name: interval([getattr(each, name) for each in found]) for name in _FIGURES},
            "tokens": interval([each.tokens(_DRAFTED) for each in found]),
        }


def markdown(results: Mapping[str, Any]) -> str:
    """Return the report."""
    note = f"""\
Share of drafted tokens that the target model accepts: *greedy* if both models take their most likely token, *sampled*
if both sample at temperature 1. *tokens* are those of a step of the target model that checks {_DRAFTED} drafted ones,
greedy. Bytes are those of table, bias and map. Means over the seeds of the fits, with 95 % intervals."""
    header = "model", "method", "ratio", "bytes", "ids", "greedy", "sampled", "tokens"

    def cells(row: Mapping[str, Any]) -> Sequence[str]:
        figures = (shown(row[name], "") for name in (*_FIGURES, "tokens"))
        ids = " or ".join(f"{size:,}" for size in sorted(set(row["ids"])))
        return row["model"], row["method"], f"{row['ratio']}x", f"{row['bytes']:,}", ids, *figures

    return join(
        [
            "# Output layers of draft models",
            f"`{results['command']}`",
            note,
            table(header, map(cells, results["rows"]), texts=2),
        ]
    )


if __name__ == "__main__":
    main()
