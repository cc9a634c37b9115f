"""The command line: arguments, progress on stderr, results on stdout, exit codes. No logic of its own.

Exit codes: 0 all good, 2 usage or bad input, 3 parity, 4 size, 5 latency, 1 anything else.
"""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TimeElapsedColumn

from edge_embed.errors import EdgeEmbedError
from edge_embed.supervisor import can_supervise, is_supervised, note_step, run_supervised

Function = Callable[..., Any]
_BAD_INPUT = 2
_SUPERVISED = ("validate", "check", "bench")
_AS_JSON = "edge_embed.json"
_FILE_WIDTH = 120  # of tables in logs and files, which have no width of their own


class Report(Protocol):
    """What every command ends with."""

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys."""


class _Commands(click.Group):
    """Turns our errors into one line and an exit code; with ``--json`` the line is an object on stdout."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        as_json = "--json" in args  # parsing consumes them
        context = super().make_context(info_name, args, parent, **extra)
        context.meta[_AS_JSON] = as_json
        return context

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except EdgeEmbedError as error:
            if context.meta[_AS_JSON]:
                click.echo(json.dumps({"error": str(error), "exit_code": error.exit_code}))
            click.echo(f"Error: {error}", err=True)
            context.exit(error.exit_code)
        except OSError as error:  # of the path of an input, or of stdout; click itself treats a closed pipe
            if error.errno == errno.EPIPE:
                raise
            click.echo(f"Error: {error.filename or 'output'}: {error.strerror or error}", err=True)
            if error.filename is None:
                _discard_output()
            context.exit(_BAD_INPUT if error.errno == errno.ENAMETOOLONG else 1)


def _discard_output() -> None:
    """Nothing is written to stdout any more: what is left in its buffer would fail again when Python ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="edge-embed")
def main() -> None:
    """Embedding tables that stay compressed, from training to the device."""


def run() -> None:
    """The console script: commands that open models in runtimes do so in a process of their own."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in _SUPERVISED and can_supervise() and not is_supervised():
        sys.exit(run_supervised(arguments, partial(_crashed, "--json" in arguments)))
    main(prog_name="edge-embed")


def _crashed(as_json: bool, how: str) -> int:
    message = (
        f"{how}: a runtime crashed on this file or on its inputs, or memory ran out; nothing was written. "
        "Opened with a lower graph_optimization_level the file may run"
    )
    if as_json:
        click.echo(json.dumps({"error": message, "exit_code": 1}))
    click.echo(f"Error: {message}", err=True)
    return 1


def _output_options(command: Function) -> Function:
    command = click.option("--quiet", "-q", is_flag=True, help="No progress, and no report unless --json.")(command)
    return click.option("--json", "as_json", is_flag=True, help="Only the result, as JSON, on stdout.")(command)


def _model_options(command: Function) -> Function:
    command = click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME:DTYPE[DIM,...]",
        help="An input of a plain torch.save file, such as ids:int64[batch,seq].",
    )(command)
    command = click.option(
        "--model",
        "factory",
        metavar="PACKAGE.MODULE:FUNCTION",
        help="For a state_dict: your function that makes its model. Needs --input.",
    )(command)
    return click.option("--allow-pickle", is_flag=True, help="Load by unpickling. This runs code from the file.")(
        command
    )


_MODEL = click.Path(path_type=Path)


@main.command()
@click.argument("model", type=_MODEL)
@click.option("--target", required=True, help="Runtime to write for: onnx.")
@click.option("--output", "-o", type=_MODEL, help="File to write. Default: MODEL with the target's suffix.")
@click.option(
    "--external-data",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Weights in a file of their own; auto does so above 128 MB.",
)
@click.option(
    "--memory-megabytes",
    type=click.IntRange(min=0),
    help="Memory that a session may take for each use of a table, to be faster. [TT: none; heads of DPQ: their codes']",
)
@click.option("--tokenizer", type=_MODEL, metavar="FILE", help="A tokenizer.json in front: the model takes strings.")
@click.option("--tokenizer-input", metavar="NAME", help="The input for its ids, where there are several of integers.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@_model_options
@_output_options
def export(
    model: Path,
    target: str,
    output: Path | None,
    external_data: Any,
    memory_megabytes: int | None,
    tokenizer: Path | None,
    tokenizer_input: str | None,
    force: bool,
    inputs: tuple[str, ...],
    factory: str | None,
    allow_pickle: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write MODEL for a target runtime, tables packed."""
    from edge_embed import workflow

    workflow.check_target(target)
    with _progress(quiet) as progress:
        report = workflow.export(
            _load(model, inputs, factory, allow_pickle),
            target,
            output or model.with_suffix(f".{target}"),
            external_data=external_data,
            memory_megabytes=memory_megabytes,
            tokenizer=tokenizer,
            tokenizer_input=tokenizer_input,
            force=force,
            progress=progress,
        )
    _finish(report, lambda console: console.print(report.render()), as_json, quiet)


@main.command()
@click.argument("model", type=_MODEL)
@click.argument("exported", type=_MODEL)
@click.option("--atol", multiple=True, metavar="[OUTPUT:]X", help="Absolute tolerance of the outputs.")
@click.option("--rtol", multiple=True, metavar="[OUTPUT:]X", help="Relative tolerance of the outputs.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random ids and inputs.")
@click.option("--iterations", type=click.IntRange(min=2), default=50, show_default=True, help="Timed runs per side.")
@click.option("--warmup", type=click.IntRange(min=0), default=5, show_default=True, help="Untimed runs before.")
@click.option("--cases", type=click.IntRange(min=0), default=0, show_default=True, help="More random inputs.")
@click.option("--load-inputs", type=_MODEL, metavar="FILE", help="Inputs of the whole model, in place of random ones.")
@click.option("--save-inputs", type=_MODEL, metavar="FILE", help="Write the inputs there (.npz).")
@click.option("--save-worst", type=_MODEL, metavar="FILE", help="Write those on which an output was farthest off.")
@click.option("--markdown", type=_MODEL, metavar="FILE", help="Write the report as Markdown.")
@click.option("--html", type=_MODEL, metavar="FILE", help="Write the report as one HTML page.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--tokenizer", type=_MODEL, metavar="FILE", help="The tokenizer.json of the export, to compare ids with.")
@click.option("--target", "targets", multiple=True, help="Run the model there too; `edge-embed doctor` lists them.")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="Of each step of a target in another process.",
)
@_model_options
@_output_options
def validate(
    model: Path,
    exported: Path,
    atol: tuple[str, ...],
    rtol: tuple[str, ...],
    seed: int,
    iterations: int,
    warmup: int,
    cases: int,
    load_inputs: Path | None,
    save_inputs: Path | None,
    save_worst: Path | None,
    markdown: Path | None,
    html: Path | None,
    force: bool,
    tokenizer: Path | None,
    targets: tuple[str, ...],
    time_limit: float,
    inputs: tuple[str, ...],
    factory: str | None,
    allow_pickle: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare EXPORTED with the MODEL it came from: every row, outputs of every path, sizes, latency."""
    from edge_embed import workflow
    from edge_embed.gate.outputs import VALIDATION, reports_at
    from edge_embed.validation.options import ValidationOptions

    options = ValidationOptions.parse(
        atol,
        rtol,
        seed=seed,
        iterations=iterations,
        warmup=warmup,
        more_cases=cases,
        inputs=load_inputs,
        save_inputs=save_inputs,
        save_worst=save_worst,
        force=force,
        targets=targets,
        tokenizer=tokenizer,
        time_limit=time_limit,
    )
    places, keep = {"markdown": markdown, "html": html}, (model, exported, load_inputs, tokenizer)
    with _progress(quiet) as progress, reports_at(places, VALIDATION, keep=keep, force=force) as write:
        report = workflow.validate(
            _load(model, inputs, factory, allow_pickle), exported, options=options, progress=progress
        )
        write(report)
    for failure in report.failures() if quiet else ():
        click.echo(failure, err=True)
    _finish(report, lambda console: console.print(report.render()), as_json, quiet, report.exit_code)


@main.command()
@click.argument("model", type=_MODEL, required=False)
@click.argument("exported", type=_MODEL, required=False)
@click.option("--budget", type=_MODEL, help="Limits, and the files if they are not given: edge-embed.toml.")
@click.option("--baseline", type=_MODEL, help="Report of an earlier check; sizes must not have grown since.")
@click.option("--base", type=_MODEL, help="An earlier EXPORTED; latency must not be worse, measured side by side.")
@click.option("--base-library", type=_MODEL, help="Operator library for --base. Default: that of EXPORTED.")
@click.option("--output", "-o", type=_MODEL, help="Write the report as JSON, the baseline of later checks.")
@click.option("--junit", type=_MODEL, help="Write it as JUnit XML.")
@click.option("--markdown", type=_MODEL, help="Write it as Markdown, for a comment on the pull request.")
@click.option("--html", type=_MODEL, help="Write it as one HTML page.")
@click.option("--force", is_flag=True, help="Overwrite existing reports.")
@_model_options
@_output_options
def check(
    model: Path | None,
    exported: Path | None,
    budget: Path | None,
    inputs: tuple[str, ...],
    factory: str | None,
    allow_pickle: bool,
    as_json: bool,
    quiet: bool,
    **files: Any,
) -> None:
    """Fail when a model grew, drifted or slowed: EXPORTED against MODEL, a budget and an earlier state.

    Ends with 3 for parity, else 4 for size, else 5 for latency, else 1 where a limit could not be checked; reports are
    written all the same.
    """
    from edge_embed import workflow
    from edge_embed.gate.budget import Budget, read_budget

    limits = Budget() if budget is None else read_budget(budget)
    source = model or limits.model
    with _progress(quiet) as progress, _importing_from(Path.cwd()) if limits.metric else nullcontext():
        program = None if source is None else _load(source, inputs, factory, allow_pickle)
        report = workflow.check(program, exported, budget=limits, **files, progress=progress)
    for line in (*report.failures(), *report.warnings) if quiet else ():
        click.echo(line, err=True)
    _finish(report, lambda console: console.print(report.render()), as_json, quiet, report.exit_code)


@main.command()
@click.argument("reports", type=_MODEL, nargs=-1, metavar="REPORT...")
@click.option("--markdown", type=_MODEL, metavar="FILE", help="Write the comparison as Markdown.")
@click.option("--html", type=_MODEL, metavar="FILE", help="Write it as one HTML page, with size against accuracy.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@_output_options
def compare(
    reports: tuple[Path, ...], markdown: Path | None, html: Path | None, force: bool, as_json: bool, quiet: bool
) -> None:
    """Put models side by side: sizes, metric, latency, and which of them are worth choosing.

    Each REPORT is what `check --output` or `validate --json` wrote about one model.
    """
    from edge_embed.gate.compare import compare_reports
    from edge_embed.gate.outputs import COMPARE, reports_at

    with reports_at({"markdown": markdown, "html": html}, COMPARE, keep=reports, force=force) as write:
        report = compare_reports(reports)
        write(report)
    _finish(report, lambda console: console.print(report.render()), as_json, quiet)


@main.command()
@click.argument("file", type=_MODEL)
@click.option("--verify", is_flag=True, help="Check the hash of every table, and of nothing else.")
@_output_options
def inspect(file: Path, verify: bool, as_json: bool, quiet: bool) -> None:
    """Show what a saved model, packed file, ONNX or ORT file contains, table by table."""
    from edge_embed.inspection.inspect import inspect_file
    from edge_embed.inspection.render import render_file

    report = inspect_file(file, verify)
    _finish(report, partial(render_file, report), as_json, quiet, report.exit_code)


def _list_option(name: str, text: str) -> Callable[[Function], Function]:
    return click.option(f"--{name}", metavar="LIST", help=text)


@main.command()
@click.argument("file", type=_MODEL, required=False)
@click.option("--preset", type=click.Choice(["rows", "heads"]), help="A grid of its own, which the rest changes.")
@_list_option("method", "dpq, ant, tt.")
@_list_option("use", "rows, bag, logits, topk, kernel (rows without a session).")
@_list_option("rows", "Rows of random tables. [100000; 32768 for logits and topk]")
@_list_option("dim", "Columns. [256]")
@_list_option("codes", "DPQ: codes a group. [16]")
@_list_option("groups", "DPQ: groups. [a quarter of the columns]")
@_list_option("anchors", "ANT: anchors. [100]")
@_list_option("nonzeros", "ANT: weights a row. [8]")
@_list_option("rank", "TT: rank. [16]")
@_list_option("memory-megabytes", "TT, DPQ: memory of a session, as of export. [as of export]")
@_list_option("k", "topk: how many of the largest logits; a model has its own. [10]")
@_list_option("batch", "Ids or hidden states a call. [rows 1,4096; bag 4096; logits 1,8,64; topk 1; kernel 1,256]")
@_list_option("ids", "uniform, zipf.")
@_list_option("cache", "warm, cold. [warm]")
@_list_option("peers", "onnxruntime, torch, scipy, faiss, copy.")
@_list_option("threads", "Of every contender. [1]")
@click.option("--rounds", type=click.IntRange(min=2), help="Rounds that count. [20]")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of tables, ids and order. [0]")
@click.option("--plot", type=_MODEL, metavar="FOLDER", help="Draw ratios.svg and roofline.svg there.")
@click.option("--force", is_flag=True, help="Overwrite existing plots.")
@_output_options
def bench(
    file: Path | None, preset: str | None, plot: Path | None, force: bool, as_json: bool, quiet: bool, **given: Any
) -> None:
    """Measure tables beside dense ones and other libraries: those of FILE, or random ones of a grid.

    A LIST has commas; every combination is measured.
    """
    from edge_embed.bench.grid import Grid
    from edge_embed.bench.run import bench as measure

    grid = Grid.parse(preset, file is not None, **given)
    with _progress(quiet) as progress:
        report = measure(grid, file, plot, force, progress)
    _finish(report, lambda console: console.print(report.render()), as_json, quiet)


@main.command()
@_output_options
def doctor(as_json: bool, quiet: bool) -> None:
    """Show versions, the operator library that is used, and what is missing."""
    from edge_embed.inspection.doctor import diagnose
    from edge_embed.inspection.render import render_doctor

    report = diagnose()
    for problem in report.problems if quiet else ():
        click.echo(f"{problem.what}: {problem.remedy}", err=True)
    _finish(report, partial(render_doctor, report), as_json, quiet, 0 if report.ok else 1)


def _load(model: Path, inputs: tuple[str, ...], factory: str | None, allow_pickle: bool) -> Any:
    from edge_embed import workflow
    from edge_embed.program.input_spec import parse_input
    from edge_embed.program.state_dict import import_factory

    with _importing_from(Path.cwd()) if allow_pickle or factory is not None else nullcontext():
        return workflow.load(
            model,
            inputs=[parse_input(text) for text in inputs],
            allow_pickle=allow_pickle,
            factory=None if factory is None else import_factory(factory),
        )


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Find the user's own modules, as ``python`` does; a console script does not look into the current folder."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):  # their module may have taken it out
            sys.path.remove(str(folder))


def _finish(report: Report, show: Callable[[Console], None], as_json: bool, quiet: bool, exit_code: int = 0) -> None:
    if as_json:
        click.echo(json.dumps(report.to_json()))
    elif not quiet:
        show(Console(width=None if sys.stdout.isatty() else _FILE_WIDTH))
    sys.exit(exit_code)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Bars on stderr, one per table or step; nothing where stderr is no terminal."""
    console = Console(stderr=True)
    columns = (
        "{task.description}",
        BarColumn(),
        "{task.percentage:>3.0f}%",
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                note_step(name)
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done)

        yield report
