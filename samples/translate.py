"""Trains a translator with sparse attention and compressed tables, exports it, and translates with the exported files.

Usage: python samples/translate.py --data FOLDER
"""

import sys
from pathlib import Path

import click
import sacrebleu
import torch
from datasets import PADDING
from multi30k.cached import Decoder, Encoder
from multi30k.claims import CANDIDATES, make_task
from multi30k.data import BEGIN, END
from multi30k.search import ExportedTranslator, translate
from multi30k.task import TranslationTask
from options import Options, data_option, make_folder
from torch import Tensor, nn
from training import train

import edge_embed

_BUILD = Path(__file__).parents[1] / "build" / "samples" / "translate"
_METHOD = "learned attention and dpq vq, K = 16, D = 64"
_BEAM = 4


@click.command()
@data_option("Folder with multi30k.tar.xz; nothing is written there.", required=True)
@click.option("--quick", is_flag=True, help="Run every step with less data and one epoch.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_BUILD,
    help="Folder for the models, which are overwritten. Default: build/samples/translate.",
)
def main(data: Path, quick: bool, seed: int, output: Path) -> None:
    """Train, export and validate a translator, and print BLEU of its translations.

    Progress goes to stderr. The exit code is 1 if a validation fails.
    """
    make_folder(output)
    torch.manual_seed(seed)
    task, recipe = make_task(Options(data, quick, seed, output))(), CANDIDATES[_METHOD][0]
    model = train(task, recipe, "translator", recipe.quick_epochs if quick else recipe.epochs)
    source, target = task.example()
    states = Encoder(model).eval()(source).detach()
    past = [states.new_zeros(len(source), 3, states.shape[-1]) for _ in range(task.num_layers)]
    files = (
        _exported(Encoder(model), (source,), output / "encoder"),
        _exported(Decoder(model), (source, states, target[:, :1], *past), output / "decoder"),
    )
    print(f"{'greedy, in PyTorch':28} BLEU {task.bleu(model):.2f}")
    for name, beam, portable in (
        ("greedy, files", 1, False),
        ("greedy, files, no library", 1, True),
        (f"beam of {_BEAM}, files", _BEAM, False),
    ):
        print(f"{name:28} BLEU {_bleu(task, ExportedTranslator(*files, portable), beam):.2f}")


def _exported(part: nn.Module, example: tuple[Tensor, ...], stem: Path) -> Path:
    """Save, export and validate a part, and print its size; exit with 1 if it differs."""
    saved, exported = stem.with_suffix(".pt"), stem.with_suffix(".onnx")
    edge_embed.save(part.eval(), saved, example, force=True)
    edge_embed.export(saved, "onnx", exported, force=True)
    report = edge_embed.validate(saved, exported)
    print(f"{exported.name:28} {exported.stat().st_size:,} bytes, validation {'passed' if report.passed else 'failed'}")
    for failure in report.failures():
        click.echo(f"{exported.name}: {failure}", err=True)
    if not report.passed:
        sys.exit(1)
    return exported


def _bleu(task: TranslationTask, translator: ExportedTranslator, beam: int) -> float:
    vocabulary, names = task.corpus.target_vocabulary, list(task.corpus.target_vocabulary)
    texts = []
    for row in task.corpus.test.source:
        words = translate(
            translator, row[row != PADDING].numpy(), vocabulary[BEGIN], vocabulary[END], beam, task.places - 1
        )
        texts.append(" ".join(names[word] for word in words))
    return float(sacrebleu.corpus_bleu(texts, [task.corpus.references], tokenize="none", force=True).score)


if __name__ == "__main__":
    main()
