"""Trains a classifier of sentences with a compressed table, exports it to TFLite, and runs the file on LiteRT.

Usage: python samples/train_classifier.py --output classifier.tflite
"""

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import torch
from datasets import number_words
from numpy.typing import NDArray
from options import data_option
from tables import MakeTable
from text_classifier import sentences
from text_classifier.litert import FileClassifier
from text_classifier.model import SentenceClassifier, table
from text_task import TextTask, batches_by_length, encode
from timing import median_microseconds
from training import Batch, Recipe, train

import edge_embed

TOKEN = r"\w+|[^\w\s]"
LENGTHS = [16, 32, 64]
_RECIPE = Recipe(table, epochs=4, quick_epochs=2, rate=3e-3)
_SENTENCES, _QUICK_SENTENCES, _HELD_OUT = 20_000, 4_000, 400
_BATCH = 64


class SentenceTask(TextTask[SentenceClassifier]):
    """Sentiment of sentences."""

    rate = 1e-3

    def model(self, table: MakeTable) -> SentenceClassifier:
        """Return the classifier."""
        return SentenceClassifier(table(len(self.vocabulary)), len(sentences.LABELS))

    def batches(self) -> Iterator[Batch]:
        """Yield ids and classes."""
        return batches_by_length(self.training, _BATCH)


@click.command()
@data_option(f"Folder with {sentences.SST2}.tar.xz. Without it the sentences are made up, and easy.")
@click.option("--quick", is_flag=True, help="Run every step with fewer sentences and epochs.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("classifier.tflite"),
    show_default=True,
    help="The file, and beside it the saved model (.pt); both are overwritten.",
)
def main(data: Path | None, quick: bool, seed: int, output: Path) -> None:
    """Train, save, export and run a classifier. The exit code is 1 if answers of the file and the model differ."""
    torch.set_num_threads(1)  # more are no faster for batches this small, and much slower beside other work
    torch.manual_seed(seed)
    random.seed(seed)
    found = sentences.read(data)
    model, words = _trained(found, quick)
    saved = output.with_suffix(".pt")
    metadata = {"tokenizer": TOKEN, "labels": " ".join(sentences.LABELS)}
    example = torch.zeros(1, LENGTHS[0], dtype=torch.int32)  # dtype of ids in apps
    edge_embed.save(model, saved, example, vocabulary=words, metadata=metadata, force=True)
    sizes = {"batch": [1], "sequence": LENGTHS}
    (exported,) = edge_embed.export(saved, "tflite", output, tflite_sizes=sizes, force=True).tables
    print(f"\n{output}: signatures for {', '.join(map(str, LENGTHS))} words")
    dense = 4 * exported.num_embeddings * exported.embedding_dim
    stored = (exported.packed_bytes or 0) + exported.added_bytes
    size = output.stat().st_size
    print(f"table: {stored:,} bytes, dense {dense:,}")
    print(f"file: {size:,} bytes, with a dense table {size - stored + dense:,}")
    sys.exit(not _compare(model, output, found))


def _trained(found: sentences.Sentences, quick: bool) -> tuple[SentenceClassifier, list[str]]:
    """Return the model in eval mode, and the word of every id."""
    chosen = random.sample(found.training, min(len(found.training), _QUICK_SENTENCES if quick else _SENTENCES))
    training, testing = ([(label, words_of(text)) for label, text in part] for part in (chosen, found.testing))
    vocabulary = number_words((word for _, words in training for word in words), least=2)
    texts, test = (encode(rows, vocabulary, max(LENGTHS)) for rows in (training, testing))
    print(f"{found.name}: {len(texts):,} sentences, {len(vocabulary):,} words; {len(test):,} held-out sentences")
    task = SentenceTask(vocabulary, texts, test, _HELD_OUT)
    epochs = _RECIPE.quick_epochs if quick else _RECIPE.epochs
    return train(task, _RECIPE, "dpq", epochs), list(vocabulary)


def words_of(text: str) -> list[str]:
    """Return words and signs in lower case."""
    return re.findall(TOKEN, text.lower())


def _compare(model: SentenceClassifier, path: Path, found: sentences.Sentences) -> bool:
    """Run the held-out sentences. Return whether the file gives the same answers as the model."""
    plain, delegated = FileClassifier(path), FileClassifier(path, delegate=True)
    ids = [plain.encode(text) for _, text in found.testing]
    with torch.no_grad():
        logits = {"training form": np.stack([model(torch.from_numpy(row).long())[0].numpy() for row in ids])}
    logits |= {"file": np.stack([plain.run(row) for row in ids])}
    logits |= {"file, delegate": np.stack([delegated.run(row) for row in ids])}
    labels = np.array([label for label, _ in found.testing])
    print(f"\naccuracy on {len(ids):,} held-out sentences, with the vocabulary in the file")
    for name, values in logits.items():
        print(f"  {name:16}{(values.argmax(1) == labels).mean():.4f}{_difference(values, logits['training form'])}")
    times = median_microseconds({"file": plain.run, "file, delegate": delegated.run}, ids)
    print("\nmedian time of a sentence on LiteRT, one thread")
    for name, time in times.items():
        print(f"  {name:16}{time:.0f} µs")
    print()
    for text in [text for _, text in found.testing[:3]]:
        print(f"  {delegated.answer(text):8}{text}")
    return all((values.argmax(1) == logits["training form"].argmax(1)).all() for values in logits.values())


def _difference(values: NDArray[np.float32], expected: NDArray[np.float32]) -> str:
    if values is expected:
        return ""
    same = (values.argmax(1) == expected.argmax(1)).sum()
    return f"  {same:,} answers the same, logits differ by {np.abs(values - expected).max():.1e} at most"


if __name__ == "__main__":
    main()
