"""All commands, and the process that runs one."""

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
from edge_embed.cli.group import Commands, tell_error, tell_os_error
from edge_embed.cli.inspect import inspect
from edge_embed.cli.package import package
from edge_embed.cli.push import push
from edge_embed.cli.streams import open_streams
from edge_embed.cli.torchrun import is_one_of_many, run_together
from edge_embed.cli.validate import validate
from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.supervisor import INTERRUPTED, can_supervise, is_supervised, leave_on_signals, run_supervised

# Commands that open models in runtimes, and commands that map files, which may be truncated meanwhile.
_SUPERVISED = ("validate", "check", "bench", "compress", "export", "inspect", "push")
_SHARED = ("compress",)


@click.group(
    cls=Commands,
    commands=[bench, check, compare, compress, doctor, export, inspect, package, push, validate],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="edge-embed")
def main() -> None:
    """Embedding tables that stay compressed, from training to the device."""


def _check_folder() -> None:
    """Refuse a working folder that was removed: the libraries of torch cannot be loaded from there."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise BadInputError("the working folder no longer exists: cd to another folder") from error


def run_command() -> None:
    """Run the command in the arguments of this process; a command that a file can crash runs in a separate process."""
    open_streams()
    # ONNX Runtime would otherwise send usage data to its makers, and leave a file for that in the temporary folder.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    arguments = sys.argv[1:]
    tell = partial(tell_error, as_json="--json" in arguments)
    command = arguments[0] if arguments else ""
    is_shared = command in _SHARED and is_one_of_many()
    try:
        _check_folder()
        if command in _SUPERVISED and not is_shared and can_supervise() and not is_supervised():
            sys.exit(run_supervised(arguments, tell))
        leave_on_signals()
        if is_shared:
            run_together(partial(main, prog_name="edge-embed"))
        main(prog_name="edge-embed")
    except EdgeEmbedError as error:
        sys.exit(tell(str(error), exit_code=error.exit_code))
    except OSError as error:  # of --help and --version, before a command runs
        sys.exit(tell_os_error(error))
    except KeyboardInterrupt:
        sys.exit(tell("interrupted", exit_code=INTERRUPTED))
