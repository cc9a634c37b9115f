"""``edge-embed package``."""

from pathlib import Path

import click

from edge_embed.cli.help import HelpCommand
from edge_embed.cli.model import FILE
from edge_embed.cli.output import Output, output_options


@click.command(
    cls=HelpCommand,
    short_help="Build the operator library for another platform.",
    examples=(
        "package --platform linux-arm64 -o edge-embed-linux-arm64",
        "package --platform windows -o edge-embed-windows --json",
    ),
)
@click.option(
    "--platform", required=True, metavar="NAME", help="android, ios, macos, windows, linux-x64, linux-arm64, web."
)
@click.option("--output", "-o", type=FILE, required=True, metavar="FOLDER", help="New or empty folder.")
@click.option("--force", is_flag=True, help="Replace an existing package.")
@click.option(
    "--time-limit", type=click.IntRange(min=1), default=1800, show_default=True, help="Seconds for each program."
)
@output_options
def package(out: Output, platform: str, output: Path, force: bool, time_limit: int) -> None:
    """Build the operator library and the TFLite delegate for a platform, with headers and build files.

    Platform web has the kernels as WebAssembly, in an npm package.

    Each library is inspected, and executed where this machine can do so. The report states which.
    """
    from edge_embed.packages.package import make_package

    with out.progress() as progress:
        report = make_package(platform, output, force=force, time_limit=time_limit, progress=progress)
    out.finish(report)
