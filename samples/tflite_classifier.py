"""Replaces the table of another author's TFLite text classifier by a compressed one, and compares both files.

Usage: python samples/tflite_classifier.py FILE.tflite -o OUT.tflite --data FOLDER
"""

import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from options import data_option
from text_classifier import sentences
from text_classifier.litert import open_litert
from timing import median_microseconds

from edge_embed.compression.tflite.replace import read_dense_tables, replace_tables
from edge_embed.errors import EdgeEmbedError
from edge_embed.fitting import dpq
from edge_embed.targets.target import RunOptions
from edge_embed.targets.tflite.runtimes import TFLITE_RUNTIME

Ids = NDArray[np.int32]
Outputs = NDArray[np.float32]
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class RegexTokenizer:
    """Tokenizer of Task Library: words by a regular expression, between a start and padding.

    Attributes:
        ids: ids by word.
        length: number of ids of each text.
    """

    ids: dict[str, int]
    length: int

    def encode(self, text: str) -> Ids:
        """Return ids [1, length]."""
        words = [word for word in re.split(r"[^\w']+", text.lower()) if word]
        found = [self.ids["<START>"], *(self.ids.get(word, self.ids["<UNKNOWN>"]) for word in words)][: self.length]
        return np.array([found + [self.ids["<PAD>"]] * (self.length - len(found))], np.int32)


class Model:
    """File on LiteRT: ids [1, length] -> its first output, as a vector."""

    def __init__(self, path: Path, delegate: bool = False) -> None:
        self._interpreter = open_litert(path, delegate)
        self._interpreter.allocate_tensors()
        self.input, *rest = self._interpreter.get_input_details()
        if rest or self.input["dtype"] != np.int32 or len(self.input["shape"]) != 2:
            raise click.ClickException(f"{path}: expected a model whose only input is ids, int32 [1, length]")
        self._output = self._interpreter.get_output_details()[0]

    def run(self, ids: Ids) -> Outputs:
        """Run the model once."""
        self._interpreter.set_tensor(self.input["index"], ids)
        self._interpreter.invoke()
        outputs: Outputs = self._interpreter.get_tensor(self._output["index"])[0]
        return outputs


@click.command()
@click.argument("file", type=FILE)
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Overwritten.")
@data_option(f"Folder with {sentences.SST2}.tar.xz, whose words are counted. Without it the sentences are made up.")
@click.option("--vocabulary", type=FILE, help="Lines of a word and its id. Default: vocab.txt in the archive of FILE.")
@click.option("--num-codes", type=click.IntRange(2, 65536), default=16, show_default=True, help="K of the table.")
@click.option("--num-groups", type=click.IntRange(min=1), help="D of the table. Default: half of its columns.")
def main(
    file: Path, output: Path, data: Path | None, vocabulary: Path | None, num_codes: int, num_groups: int | None
) -> None:
    """Replace the largest table of the classifier FILE, which takes ids [1, length], by one of DPQ."""
    try:
        tables = read_dense_tables(file)
        if not tables:
            raise click.ClickException(f"{file}: expected lookups in a float32 table")
        name = max(tables, key=lambda each: tables[each].size)
        original, found = Model(file), sentences.read(data)
        tokenizer = RegexTokenizer(_read_vocabulary(file, vocabulary), int(original.input["shape"][1]))
        rows, groups = tables[name], num_groups or tables[name].shape[1] // 2
        if rows.shape[1] % groups:
            raise click.ClickException(f"--num-groups: got {groups}, expected a divisor of the {rows.shape[1]} columns")
        counts = _counts(tokenizer, [text for _, text in found.training], len(rows))
        packed = dpq.fit(rows, num_codes, groups, counts=torch.from_numpy(counts)).to_packed()
        replace_tables(file, output, {name: packed}, force=True)
    except (EdgeEmbedError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    print(f"table {name}: {rows.nbytes:,} bytes -> {packed.nbytes:,}")
    print(f"file: {file.stat().st_size:,} bytes -> {output.stat().st_size:,}")
    _compare(file, output, [tokenizer.encode(text) for _, text in found.testing], found.name)


def _read_vocabulary(file: Path, vocabulary: Path | None) -> dict[str, int]:
    if vocabulary is not None:
        text = vocabulary.read_text(encoding="utf-8")
    else:
        try:
            with zipfile.ZipFile(file) as archive:
                text = archive.read("vocab.txt").decode()
        except (zipfile.BadZipFile, KeyError) as error:
            raise click.ClickException(f"{file}: has no vocab.txt in an archive: give --vocabulary") from error
    words = (line.rpartition(" ") for line in text.splitlines())
    ids = {word: int(number) for word, _, number in words if number.isdigit()}
    if missing := {"<START>", "<UNKNOWN>", "<PAD>"} - ids.keys():
        raise click.ClickException(
            f"{', '.join(sorted(missing))} missing in the vocabulary: expected lines of a word and its id"
        )
    return ids


def _counts(tokenizer: RegexTokenizer, texts: Sequence[str], num_rows: int) -> NDArray[np.float64]:
    """Return the frequency of each row, plus one: a mean of many rows is mostly that of padding and frequent words."""
    found = Counter(int(at) for text in texts for at in tokenizer.encode(text)[0])
    return 1.0 + np.array([found[at] for at in range(num_rows)])


def _compare(original: Path, replaced: Path, ids: Sequence[Ids], name: str) -> None:
    """Run both files on sentences that were not counted, and print how they compare."""
    print(f"\n{len(ids):,} held-out sentences ({name}), compared with the original")
    models = {"original": Model(original), "replaced": Model(replaced), "delegate": Model(replaced, delegate=True)}
    expected = [models["original"].run(each) for each in ids]
    for kind in ("replaced", "delegate"):
        _print_difference(f"LiteRT, {kind}", expected, [models[kind].run(each) for each in ids])
    if reason := TFLITE_RUNTIME.reason_against():
        print(f"  tflite-runtime: not run: {reason}")
    else:
        old = [_on_tflite_runtime(path, models["original"].input["name"], ids) for path in (original, replaced)]
        _print_difference("tflite-runtime, replaced", *old)
    print("\nmedian time of a sentence on LiteRT, one thread, alternately")
    for kind, time in median_microseconds({kind: model.run for kind, model in models.items()}, ids).items():
        print(f"  {kind:26}{time:.1f} µs")


def _on_tflite_runtime(path: Path, name: str, ids: Sequence[Ids]) -> list[Outputs]:
    run: Any = TFLITE_RUNTIME.open(path).run([{name: each} for each in ids], RunOptions(iterations=0))
    return [outputs[0][0] for outputs in run.outputs]


def _print_difference(name: str, expected: Sequence[Outputs], got: Sequence[Outputs]) -> None:
    same = np.mean([one.argmax() == other.argmax() for one, other in zip(expected, got, strict=True)])
    largest = max(float(np.abs(one - other).max()) for one, other in zip(expected, got, strict=True))
    print(f"  {name:26}{same:.1%} same answers, outputs differ by {largest:.3f} at most")


if __name__ == "__main__":
    main()
