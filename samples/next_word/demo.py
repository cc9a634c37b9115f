"""Trains a next-word model with a compressed embedding, exports it, validates it, and runs the exported file."""

import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import click
import corpus
import torch
import train
from model import NextWord
from vocabulary import Vocabulary

import edge_embed

_ROOT = Path(__file__).parents[2]
_COMPLETE = _ROOT / "samples" / "python" / "complete.py"
_SEED = 0
_LENGTH = 32
_PROMPTS = [
    "Return a list of",
    "Raise an exception if",
    "The name of the",
    "Convert a string to a",
    "Return True if the",
    "If the file does not",
]


@click.command()
@click.option("--epochs", type=click.IntRange(min=1), default=4, show_default=True, help="Passes over the text.")
@click.option("--quick", is_flag=True, help="Run every step with one pass over a small part of the text.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_ROOT / "build" / "next_word",
    help="Folder for model.pt and bundle, which are overwritten. Default: build/next_word.",
)
def main(epochs: int, quick: bool, output: Path) -> None:
    """Train, save, export, validate and run a next-word model."""
    output.mkdir(parents=True, exist_ok=True)
    model, vocabulary = _trained(1 if quick else epochs, max_files=25 if quick else None)

    print("\nSave the model with its vocabulary: model.pt no longer requires this code.")
    example = torch.tensor([vocabulary.encode("Return a new list .")])
    metadata = {"task": "next word", "tokenizer": vocabulary.token}
    edge_embed.save(model, output / "model.pt", example, vocabulary=vocabulary.words, metadata=metadata, force=True)

    _edge_embed(output, "export", "model.pt", "--target", "onnx", "--bundle", "bundle", "--force")
    _edge_embed(output, "validate", "model.pt", "bundle/model.onnx", "--iterations", "2" if quick else "50")

    print("\nNext words from the bundle alone, computed by ONNX Runtime:", flush=True)
    _run(output, [sys.executable, _COMPLETE, "bundle", *_PROMPTS])


def _trained(epochs: int, max_files: int | None) -> tuple[NextWord, Vocabulary]:
    torch.manual_seed(_SEED)
    training, validation = corpus.split(corpus.read_docstrings(max_files))
    vocabulary = Vocabulary.of(training)
    rows = corpus.windows(training, vocabulary, _LENGTH)
    held_out = corpus.windows(validation, vocabulary, _LENGTH)
    model = NextWord(len(vocabulary), num_answers=min(3000, len(vocabulary)))
    print(f"{len(training):,} docstrings, {rows.numel():,} words, {len(vocabulary):,} different words\n{model}")
    train.train(model, rows, held_out, epochs, _SEED)
    seen, unseen = (train.perplexity(model, part) for part in (rows[::20], held_out))
    print(f"perplexity: {seen:.1f} on training text, {unseen:.1f} on held-out text")
    return model, vocabulary


def _edge_embed(folder: Path, *arguments: str) -> None:
    """Run the command line as a user would; exit with its exit code if it fails."""
    print(f"\n$ {shlex.join(['edge-embed', *arguments])}", flush=True)
    command = shutil.which("edge-embed", path=sysconfig.get_path("scripts"))
    if command is None:
        sys.exit("edge-embed is not installed for this Python: run `make install`")
    _run(folder, [command, *arguments])


def _run(folder: Path, command: Sequence[str | Path]) -> None:
    finished = subprocess.run(command, cwd=folder, check=False)
    if finished.returncode:
        sys.exit(finished.returncode)


if __name__ == "__main__":
    main()
