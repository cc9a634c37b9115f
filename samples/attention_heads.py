"""Studies attention heads of trained models as in "Adaptively Sparse Transformers": alphas, density, diversity, roles.

Usage: python samples/attention_heads.py inflection --data FOLDER
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from statistics import fmean

import click
import numpy as np
import torch
from multi30k.density import Attention, attention_of
from multi30k.model import Translator
from multi30k.task import TranslationTask
from numpy.typing import NDArray
from options import Options, data_option, make_folder
from torch import nn
from training import train

from edge_embed.report.views.markdown.blocks import join, table
from edge_embed.study import attention_plot
from edge_embed.study.attention import (
    AlphaTrajectories,
    density,
    diversity,
    find_position_heads,
    learned_alphas,
    position_scores,
)

_SAMPLES = ("inflection", "multi30k")
_BUILD = Path(__file__).parents[1] / "build" / "attention_heads"
_METHODS = {"softmax": "dense", "1.5-entmax": "entmax15 attention", "learned": "learned attention"}
_STEPS = 50  # from one recorded alpha to the next
_OFFSETS = {"previous": -1, "same": 0, "next": 1}
_AT_LEAST = 0.5  # mean probability of a position

Layers = Mapping[str, Attention]


class Watch:
    """Observer that records the learned alphas of a model now and then."""

    def __init__(self) -> None:
        self.trajectories: AlphaTrajectories | None = None
        self._step = 0

    def __call__(self, model: nn.Module) -> None:
        """Count a step."""
        self._step += 1
        if self._step % _STEPS == 1:
            self.trajectories = self.trajectories or AlphaTrajectories(model)
            self.trajectories.record(self._step)


@click.command()
@click.argument("sample", type=click.Choice(_SAMPLES))
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--quick", is_flag=True, help="Run every step with less data and one epoch.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for heads.md and the figures, which are overwritten. Default: build/attention_heads/SAMPLE.",
)
def main(sample: str, data: Path, quick: bool, seed: int, output: Path | None) -> None:
    """Train a SAMPLE with three kinds of attention, draw their attention heads, and print tables.

    Progress goes to stderr.
    """
    folder = output or _BUILD / sample
    make_folder(folder)
    torch.set_num_threads(1)  # faster for models this small
    module = import_module(f"{sample}.claims")
    make_task = module.make_task(Options(data, quick, seed, folder))
    watch, models, layers = Watch(), {}, {}
    for name, method in _METHODS.items():
        torch.manual_seed(seed)
        task, recipe = make_task(), module.CANDIDATES[method][0]
        epochs = recipe.quick_epochs if quick else recipe.epochs
        models[name] = train(task, recipe, f"{name}, seed {seed}", epochs, *[watch] * (name == "learned"))
        layers[name] = attention_of(models[name], *task.measured())
    assert watch.trajectories is not None  # the last method learns alphas
    _draw(watch.trajectories, models["learned"], layers, folder)
    _draw_best(task, layers["learned"], folder)
    report = _report(learned_alphas(models["learned"]), layers)
    (folder / "heads.md").write_text(report, encoding="utf-8")
    print(report, end="")


def _draw(trajectories: AlphaTrajectories, learned: Translator, layers: Mapping[str, Layers], folder: Path) -> None:
    """Draw alphas over training, their histogram for each kind of attention, and numbers of the layers."""
    kinds: dict[str, list[float]] = {}
    for name, alphas in learned_alphas(learned).items():
        kinds.setdefault(_kind(name), []).extend(alphas)
    attention_plot.draw_alphas(trajectories, folder / "alphas.svg", force=True)
    attention_plot.draw_alpha_histograms(kinds, folder / "histograms.svg", force=True)
    for label, measure in (("density", _density), ("diversity", _diversity)):
        numbers = {model: {name: measure(each) for name, each in found.items()} for model, found in layers.items()}
        attention_plot.draw_layers(numbers, folder / f"{label}.svg", label=label, force=True)


def _draw_best(task: TranslationTask, layers: Layers, folder: Path) -> None:
    """Draw one sentence's attention in the layer with the best attention head for the previous position."""
    found = find_position_heads(_self_attention(layers), _OFFSETS["previous"], at_least=0.0)
    source, target = task.measured()
    is_written = found[0].layer.startswith("decoder")
    vocabulary = task.corpus.target_vocabulary if is_written else task.corpus.source_vocabulary
    tokens = [list(vocabulary)[number] for number in (target if is_written else source)[0] if number]
    maps = layers[found[0].layer].probabilities[0, :, : len(tokens), : len(tokens)]
    attention_plot.draw_maps(maps, folder / "maps.svg", queries=tokens, force=True)


def _report(alphas: Mapping[str, NDArray[np.float64]], layers: Mapping[str, Layers]) -> str:
    header = [
        "layer",
        "learned alphas",
        *(f"density, {name}" for name in layers),
        *(f"diversity, {name}" for name in layers),
    ]
    rows = [
        [
            name,
            " ".join(f"{alpha:.2f}" for alpha in sorted(of_layer)),
            *(f"{100 * _density(each[name]):.0f} %" for each in layers.values()),
            *(f"{_diversity(each[name]):.2f}" for each in layers.values()),
        ]
        for name, of_layer in alphas.items()
    ]
    means = [fmean(100 * _density(layer) for layer in each.values()) for each in layers.values()]
    spread = [fmean(_diversity(layer) for layer in each.values()) for each in layers.values()]
    rows.append(["mean", "", *(f"{mean:.0f} %" for mean in means), *(f"{each:.2f}" for each in spread)])
    return join([table(header, rows), _roles(layers)])


def _roles(layers: Mapping[str, Layers]) -> str:
    """Return the table of positions: attention heads that look there, and the highest score."""
    header = ["position", *(f"{name}, heads" for name in layers), *(f"{name}, highest" for name in layers)]
    rows = []
    for position, offset in _OFFSETS.items():
        own = [_self_attention(each) for each in layers.values()]
        counts = [len(find_position_heads(each, offset, _AT_LEAST)) for each in own]
        best = [max(np.nanmax(position_scores(p, offset)) for p in each.values()) for each in own]
        rows.append([position, *map(str, counts), *(f"{score:.2f}" for score in best)])
    return table(header, rows)


def _self_attention(layers: Layers) -> dict[str, NDArray[np.float32]]:
    return {name: layer.probabilities for name, layer in layers.items() if name.endswith("self_attn")}


def _density(layer: Attention) -> float:
    return float(density(*layer).mean())


def _diversity(layer: Attention) -> float:
    return diversity(layer.probabilities)


def _kind(name: str) -> str:
    """Return the kind of attention of a layer: ``encoder``, ``decoder`` or ``context``."""
    return name.partition(".")[0] if name.endswith("self_attn") else "context"


if __name__ == "__main__":
    main()
