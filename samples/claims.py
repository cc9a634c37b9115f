"""Experiments on the papers' claims: one task, a dense table and compressed ones at several ratios, several seeds.

Usage: python samples/claims.py ag_news --data FOLDER --seeds 5 --output FOLDER
"""

import dataclasses
import json
import platform
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import numpy as np
import torch
from baselines.cut_down import WAYS
from begun import Begun, fingerprint
from candidates import Candidates, one_of_each
from costs import step_costs, step_memory
from options import Options, data_option, make_folder
from scipy import stats
from trials import Trial, choose, run_seed

from edge_embed.report.views.markdown.blocks import join, table

_NAMES = (
    "ag_news",
    "amazon_video",
    "bert",
    "click_through",
    "inflection",
    "multi30k",
    "multi30k_untied",
    "ratings",
    "sst2",
    "wikitext2",
    "wikitext2_two_tables",
    "wikitext2_untied",
)
_BUILD = Path(__file__).parents[1] / "build" / "claims"
_NOTE = """\
*vs dense* is the difference from the dense model of the same seed. *at equal bytes* is the score of that dense model
after post-training compression of its table to as many bytes, minus the score of the method. That compression is a
low rank (svd), product quantisation weighted by frequency (pq), TT-SVD (tt) or, beside trained tiers, a tiered table
(tiers). A cell is empty if the smallest setting needs more bytes."""
_SIZES = """\
*numbers* are the float32 numbers of all tables by the count of the method's paper: codes of log2 K bits and values for
DPQ, A d + nnz(T) for ANT, cores for TT. *ratio, paper* is the ratio by that count, *ratio, bytes* by all bytes that a
file stores for the tables. Tiers have no paper. *step time* is the median processor time of training steps, relative to
the dense model with Adam. Steps are sampled from an epoch and timed alternately. *step memory* counts parameters,
gradients, the state of the optimiser and what the largest batch keeps for its backward pass, of the whole model."""

_CHOICE = "Epochs and settings were chosen by validation data."


@click.command()
@click.argument("sample", type=click.Choice(_NAMES))
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Number of seeds.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="First seed.")
@click.option("--quick", is_flag=True, help="Fewer epochs, one ratio per method, no choice of settings.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for results.json and results.md, which are overwritten. Default: build/claims/SAMPLE[-NAME].",
)
@click.option(
    "--ablation",
    metavar="NAME",
    help="Train settings that differ in one option at a time instead: sx of click_through.",
)
@click.option("--resume", is_flag=True, help="Resume an interrupted run in this folder, or add methods to it.")
def main(
    sample: str, data: Path, seeds: int, seed: int, quick: bool, output: Path | None, ablation: str | None, resume: bool
) -> None:
    """Train the models of a SAMPLE from several seeds, and write how the methods compare with a dense table.

    Progress goes to stderr, the report to stdout too.
    """
    module = import_module(f"{sample}.claims")
    candidates = _candidates(module, ablation, quick)
    options = Options(data, quick, seed, output or _BUILD / (f"{sample}-{ablation}" if ablation else sample))
    make_folder(options.output)
    torch.set_num_threads(1)  # faster for models this small; step times are those of one core
    make_task = module.make_task(options)
    file = options.output / "begun.json"
    begun = Begun(sample, quick, data=fingerprint(make_task))
    if resume:
        begun = Begun.read(file, begun, candidates, "leave out --resume to start again")
    for method, settings in candidates.items():
        if method not in begun.chosen:
            begun.chosen[method] = choose(make_task, settings, method, options)
            begun.write(file)
    torch.manual_seed(seed)
    task = make_task()
    begun.chosen = {method: begun.chosen[method] for method in candidates}  # in this order, also of a resumed run
    recipes = {method: candidates[method][setting] for method, setting in begun.chosen.items()}
    if begun.costs.keys() != recipes.keys():
        begun.costs = step_costs(task, recipes, quick)
    if begun.memory.keys() != recipes.keys():
        begun.memory = step_memory(task, recipes)
    for number in range(seed, seed + seeds):
        done = {trial.method for trial in begun.trials if trial.seed == number}
        if done != recipes.keys():
            for trial in run_seed(make_task, candidates, begun.chosen, number, options, done):
                begun.trials.append(trial)
                begun.write(file)
        command = f"python samples/claims.py {sample} --seeds {number - seed + 1} --seed {seed}" + " --quick" * quick
        command += f" --ablation {ablation}" if ablation else ""
        report = _write_report(command, task.metric, begun, range(seed, number + 1), options.output)
    print(report, end="")


def _candidates(module: ModuleType, ablation: str | None, quick: bool) -> Candidates:
    """Return the settings of the methods of a sample, or of one of its ablations."""
    if ablation is None:
        methods: Candidates = module.CANDIDATES
        return one_of_each(methods) if quick else methods
    ablations: Mapping[str, Candidates] = getattr(module, "ABLATIONS", {})
    if ablation not in ablations:
        expected = f"expected {' or '.join(ablations)}" if ablations else "none, as this sample has no ablation"
        raise click.UsageError(f"--ablation: got {ablation!r:.80}, {expected}")
    return ablations[ablation]


def _write_report(command: str, metric: str, begun: Begun, seeds: range, folder: Path) -> str:
    """Write the results of these seeds in both formats, and return the Markdown."""
    trials = [trial for seed in seeds for trial in begun.trials if trial.seed == seed]
    results = {
        "command": command,
        "machine": f"{platform.machine()}, one thread, torch {torch.__version__}",
        "metric": metric,
        "methods": [_summary(method, trials, begun) for method in begun.chosen],
        "trials": [dataclasses.asdict(trial) for trial in trials],
    }
    report = _markdown(results, begun.quick)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (folder / "results.md").write_text(report, encoding="utf-8")
    return report


def _summary(method: str, trials: Sequence[Trial], begun: Begun) -> dict[str, Any]:
    """Return the summary of a method over all seeds."""
    dense = {trial.seed: trial for trial in trials if trial.method == "dense"}
    own = [trial for trial in trials if trial.method == method]
    beside = [] if method == "dense" else [dense[trial.seed] for trial in own]
    return {
        "method": method,
        "setting": own[0].setting,
        "ratio": float(np.mean([dense[trial.seed].table_bytes / trial.table_bytes for trial in own])),
        "paper ratio": float(np.mean([dense[trial.seed].paper_numbers / trial.paper_numbers for trial in own])),
        "numbers": float(np.mean([trial.paper_numbers for trial in own])),
        **_compared([trial.test for trial in own], [trial.test for trial in beside]),
        "cut down": {
            way: interval([trial.cut_down[way] - trial.test for trial in own])
            for way in WAYS
            if all(way in trial.cut_down for trial in own)
        },
        "further": {
            name: _compared([trial.further[name] for trial in own], [trial.further[name] for trial in beside])
            for name in own[0].further
        },
        "step cost": float(np.median(begun.costs[method])),
        "step memory": begun.memory[method],
    }


def _compared(scores: Sequence[float], dense: Sequence[float]) -> dict[str, Any]:
    """Return the scores of the seeds, and the differences from the dense model within a seed; None for that model."""
    differences = [score - other for score, other in zip(scores, dense, strict=False)]
    return {"score": interval(scores), "difference": interval(differences) if dense else None}


def interval(values: Sequence[float]) -> dict[str, float]:
    """Return the mean and half the width of its 95 % interval by Student's t; infinite for one seed."""
    apart = np.subtract(values, values[0])  # exactly zero for equal values
    half = stats.sem(apart) * stats.t.ppf(0.975, len(values) - 1) if len(values) > 1 else np.inf
    return {"mean": float(np.mean(values)), "half": float(half)}


def _markdown(results: Mapping[str, Any], quick: bool) -> str:
    further = list(results["methods"][0]["further"])
    ways = [way for way in WAYS if any(way in row["cut down"] for row in results["methods"])]
    header = ["method", "ratio", results["metric"], "vs dense", *(f"{way} at equal bytes" for way in ways)]
    header += [column for name in further for column in (name, "vs dense")]
    rows = [
        [
            row["method"],
            f"{row['ratio']:.1f}x",
            *_columns(row),
            *(shown(row["cut down"].get(way), "+") for way in ways),
            *(figure for name in further for figure in _columns(row["further"][name])),
        ]
        for row in results["methods"]
    ]
    seeds = {trial["seed"] for trial in results["trials"]}
    means = "Means over the seeds with 95 % intervals (Student's t)." if len(seeds) > 1 else "One seed."
    choice = "Epochs were chosen by validation data, settings were not." if quick else _CHOICE
    notes = f"{means} {_NOTE} {choice}"
    head = f"`{results['command']}` ({results['machine']})"
    return join([head, table(header, rows), notes, _sizes(results["methods"]), _SIZES])


def _sizes(methods: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of sizes and of the costs of training."""
    header = ["method", "ratio, bytes", "ratio, paper", "numbers", "step time", "step memory"]
    rows = [
        [
            row["method"],
            f"{row['ratio']:.1f}x",
            "" if row["method"].startswith("tiers") else f"{row['paper ratio']:.1f}x",
            f"{row['numbers']:,.0f}",
            f"{row['step cost']:.2f}x",
            f"{row['step memory'] / methods[0]['step memory']:.2f}x",
        ]
        for row in methods
    ]
    return table(header, rows)


def _columns(figures: Mapping[str, Any]) -> tuple[str, str]:
    return shown(figures["score"], ""), shown(figures["difference"], "+")


def shown(found: Mapping[str, float] | None, sign: str) -> str:
    """Format an interval; empty without one."""
    if found is None:
        return ""
    half = f" ± {found['half']:.2g}" if np.isfinite(found["half"]) else ""
    return f"{found['mean']:{sign}.4g}{half}"


if __name__ == "__main__":
    main()
