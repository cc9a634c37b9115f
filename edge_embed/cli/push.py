"""``edge-embed push``."""

from pathlib import Path

import click

from edge_embed.cli.help import HelpCommand
from edge_embed.cli.model import FILE
from edge_embed.cli.output import Output, output_options


@click.command(
    cls=HelpCommand,
    short_help="Upload a bundle or a compressed model to the Hugging Face Hub.",
    examples=(
        "push app_model your-name/next-words",
        "push small.pt your-name/small-words --card README.md --private",
    ),
)
@click.argument("path", type=FILE)
@click.argument("repo", metavar="OWNER/NAME")
@click.option("--card", type=FILE, metavar="FILE.md", help="Model card of a saved model. [made from the file]")
@click.option("--private", is_flag=True, help="Create a private repository.")
@click.option("--revision", metavar="BRANCH", help="Branch, which is created if it does not exist. [main]")
@click.option("--message", default="Upload with edge-embed", show_default=True, help="Message of the commit.")
@output_options
def push(
    out: Output, path: Path, repo: str, card: Path | None, private: bool, revision: str | None, message: str
) -> None:
    """Upload the folder of a bundle, or a saved model, to the Hugging Face Hub in one commit.

    A bundle is compared with its hashes first. The access token is that of `hf auth login`, or HF_TOKEN.
    """
    from edge_embed.hub.upload import push_to_hub

    if out.quiet:
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()
    out.finish(push_to_hub(path, repo, card=card, private=private, revision=revision, message=message))
