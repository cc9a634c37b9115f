"""The command line: arguments, progress on stderr, results on stdout, exit codes that tell. No logic of its own.

Exit codes: 0 all good, 2 usage or bad input, 3 parity, 4 size, 5 latency, 1 anything else.
"""

import os
import sys
from functools import partial

import click

from edge_embed.cli.bench import bench
from edge_embed.cli.check import check
from edge_embed.cli.compare import compare
from edge_embed.cli.compress import compress
from edge_embed.cli.doctor import doctor
from edge_embed.cli.export import export
from edge_embed.cli.group import Commands, tell_error
from edge_embed.cli.inspect import inspect
from edge_embed.cli.torchrun import is_one_of_many, run_together
from edge_embed.cli.validate import validate
from edge_embed.errors import EdgeEmbedError
from edge_embed.supervisor import can_supervise, is_supervised, leave_on_signals, run_supervised

__all__ = ["main", "run"]

_SUPERVISED = ("validate", "check", "bench")
_SHARED = ("compress",)


@click.group(
    cls=Commands,
    commands=[bench, check, compare, compress, doctor, export, inspect, validate],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="edge-embed")
def main() -> None:
    """Embedding tables that stay compressed, from training to the device."""


def run() -> None:
    """The console script: commands that open models in runtimes do so in a process of their own."""
    # ONNX Runtime would send what it does to its makers, and leave a file for that in the temporary folder.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    arguments = sys.argv[1:]
    if arguments and arguments[0] in _SUPERVISED and can_supervise() and not is_supervised():
        sys.exit(run_supervised(arguments, partial(tell_error, as_json="--json" in arguments, exit_code=1)))
    leave_on_signals()
    if arguments and arguments[0] in _SHARED and is_one_of_many():
        try:
            run_together(partial(main, prog_name="edge-embed"))
        except EdgeEmbedError as error:
            sys.exit(tell_error(str(error), as_json="--json" in arguments, exit_code=error.exit_code))
    main(prog_name="edge-embed")
