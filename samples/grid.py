"""Heat maps over K and D, as in figures 3 and 7 of the DPQ paper: the score of a task, and the compression ratio.

Usage: python samples/grid.py ag_news --data FOLDER --seeds 5 --output FOLDER
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from begun import Begun, fingerprint
from candidates import Candidates
from claims import interval, shown
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray
from options import Options, data_option, make_folder
from trials import Trial, run_seed

from edge_embed.report.views.markdown.blocks import join, table
from edge_embed.report.views.svg import write_svg

_CODES, _GROUPS = (2, 8, 32, 128), (8, 32, 128)  # those of the paper for rows of 128 numbers
_QUICK_CODES, _QUICK_GROUPS = (2, 8), (8, 32)
_VARIANTS = ("sx", "vq")
_RATIO = "ratio by the formula of the paper"
_BUILD = Path(__file__).parents[1] / "build" / "grid"
_NOTE = """\
Means over the seeds with 95 % intervals (Student's t). All tables have the same epochs and rate, which validation did
not choose. The dense table has those that validation chose for it."""

Size = tuple[int, int]  # K, D
Trials = Mapping[Size, Sequence[Trial]]


@click.command()
@click.argument("sample", type=click.Choice(("ag_news", "wikitext2_untied")))
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Number of seeds.")
@click.option("--quick", is_flag=True, help="Fewer epochs, texts and sizes.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_BUILD,
    help="Folder for SAMPLE.json, SAMPLE.md and SAMPLE.svg. Finished trials in it are not run again.",
)
def main(sample: str, data: Path, seeds: int, quick: bool, output: Path) -> None:
    """Train DPQ tables of many sizes in the task of a SAMPLE, and draw its score and the compression ratio."""
    options = Options(data, quick, 0, output)
    make_folder(output)
    torch.set_num_threads(1)
    module = import_module(f"{sample}.claims")
    candidates = sizes(module.CANDIDATES["dense"], module.grid, quick)
    file, make_task = output / f"{sample}.json", module.make_task(options)
    begun = Begun(sample, quick, data=fingerprint(make_task))
    if file.exists():
        begun = Begun.read(file, begun, candidates, "give another --output")
    begun.chosen = dict.fromkeys(candidates, 0)
    for seed in range(seeds):
        done = {trial.method for trial in begun.trials if trial.seed == seed}
        if done != candidates.keys():
            for trial in run_seed(make_task, candidates, begun.chosen, seed, options, done, ways=()):
                begun.trials.append(trial)
                begun.write(file)
    task = make_task()
    command = f"python samples/grid.py {sample} --seeds {seeds}" + " --quick" * quick
    trials = [trial for trial in begun.trials if trial.seed < seeds]
    report = markdown(trials, task.metric, command)
    (output / f"{sample}.md").write_text(report, encoding="utf-8")
    draw(trials, task.metric, task.higher_is_better, output / f"{sample}.svg")
    print(report, end="")


def sizes(dense: Sequence[Any], recipe: Callable[[str, int, int], Any], quick: bool) -> Candidates:
    """Return the recipes of the dense table and of all sizes."""
    codes, groups = (_QUICK_CODES, _QUICK_GROUPS) if quick else (_CODES, _GROUPS)
    grid = [(variant, k, d) for variant in _VARIANTS for k in codes for d in groups]
    return {"dense": dense[:1], **{_name(*size): [recipe(*size)] for size in grid}}


def _name(variant: str, num_codes: int, num_groups: int) -> str:
    return f"dpq {variant}, K = {num_codes}, D = {num_groups}"


def markdown(trials: Sequence[Trial], metric: str, command: str) -> str:
    """Return a table of scores for each variant, and one of ratios."""
    dense = {trial.seed: trial for trial in trials if trial.method == "dense"}
    parts = [f"Dense: {metric} {shown(interval([trial.test for trial in dense.values()]), '')}."]
    for variant in _VARIANTS:
        found = _of(trials, variant)
        scores = {size: shown(interval([trial.test for trial in own]), "") for size, own in found.items()}
        apart = {size: _apart(own, dense) for size, own in found.items()}
        parts += [f"## DPQ-{variant.upper()}: {metric}", _table(scores)]
        parts += [f"## DPQ-{variant.upper()}: difference from the dense table of the same seed", _table(apart)]
    ratios = {size: f"{_ratio(own, dense):.1f}x" for size, own in _of(trials, _VARIANTS[0]).items()}
    return join([f"`{command}`", *parts, f"## Compression {_RATIO}", _table(ratios), _NOTE])


def _of(trials: Sequence[Trial], variant: str) -> Trials:
    """Return the trials of each size of a variant, in the order of the sizes."""
    found: dict[Size, list[Trial]] = {}
    for size in ((k, d) for k in _CODES for d in _GROUPS):
        if own := [trial for trial in trials if trial.method == _name(variant, *size)]:
            found[size] = own
    return found


def _apart(own: Sequence[Trial], dense: Mapping[int, Trial]) -> str:
    return shown(interval([trial.test - dense[trial.seed].test for trial in own]), "+")


def _ratio(own: Sequence[Trial], dense: Mapping[int, Trial]) -> float:
    return float(np.mean([dense[trial.seed].paper_numbers / trial.paper_numbers for trial in own]))


def _table(cells: Mapping[Size, str]) -> str:
    """Return cells as a table with a row for each K and a column for each D."""
    codes, groups = _axes(cells)
    return table(["", *(f"D = {d}" for d in groups)], [[f"K = {k}", *(cells[k, d] for d in groups)] for k in codes])


def _axes(cells: Mapping[Size, Any]) -> tuple[list[int], list[int]]:
    """Return all K and all D."""
    return sorted({k for k, _ in cells}), sorted({d for _, d in cells})


def draw(trials: Sequence[Trial], metric: str, higher_is_better: bool, path: Path) -> None:
    """Draw heat maps of the scores, on one scale, and of the ratio side by side: the darker, the better."""
    dense = {trial.seed: trial for trial in trials if trial.method == "dense"}
    scores = {
        variant: {size: float(np.mean([trial.test for trial in own])) for size, own in _of(trials, variant).items()}
        for variant in _VARIANTS
    }
    ratios = {size: _ratio(own, dense) for size, own in _of(trials, _VARIANTS[0]).items()}
    means = [score for cells in scores.values() for score in cells.values()]
    scale, colours = Normalize(min(means), max(means)), "Blues" if higher_is_better else "Blues_r"
    figure = Figure(figsize=(4 * len(scores) + 4, 3.4), layout="constrained")
    *panels, last = figure.subplots(1, len(scores) + 1)
    for axes, (variant, cells) in zip(panels, scores.items(), strict=True):
        _map(axes, f"{metric}, DPQ-{variant.upper()}", cells, scale, colours)
    _map(last, _RATIO, ratios, LogNorm(min(ratios.values()), max(ratios.values())), "Blues")
    write_svg(figure, path)


def _map(axes: Axes, title: str, cells: Mapping[Size, float], scale: Normalize, colours: str) -> None:
    """Draw one heat map, with its numbers."""
    codes, groups = _axes(cells)
    values: NDArray[np.float64] = np.array([[cells[k, d] for d in groups] for k in codes])
    image = axes.imshow(values, aspect="auto", norm=scale, cmap=colours)
    light = image.to_rgba(values)[..., :3].mean(-1)
    for (row, column), value in np.ndenumerate(values):
        ink = "white" if light[row, column] < 0.5 else "black"
        axes.text(column, row, f"{value:.4g}", ha="center", va="center", color=ink)
    axes.set(title=title, xlabel="D", ylabel="K")
    axes.set_xticks(range(len(groups)), map(str, groups))
    axes.set_yticks(range(len(codes)), map(str, codes))


if __name__ == "__main__":
    main()
