"""Code of an app: runs the file on LiteRT, with the words stored in the file. It needs no torch."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import edge_embed
from edge_embed.inspection.tflite_file import read_tflite

PADDING, UNKNOWN = 0, 1


def open_litert(path: Path, delegate: bool = False) -> Any:
    """Return an interpreter on one thread, with the delegate of this package or the file's own operators."""
    from ai_edge_litert.interpreter import Interpreter, load_delegate  # noqa: PLC0415

    delegates = [load_delegate(str(edge_embed.get_delegate_path()))] if delegate else None
    return Interpreter(str(path), num_threads=1, experimental_delegates=delegates)


class FileClassifier:
    """Exported classifier, whose file contains vocabulary, tokenizer and labels.

    Args:
        path: the ``.tflite`` file, with a signature for each of some lengths.
        delegate: whether to run lookups with the kernels of this package.
    """

    def __init__(self, path: Path, delegate: bool = False) -> None:
        texts = read_tflite(path).metadata
        self._ids = {word: at for at, word in enumerate(json.loads(texts["edge_embed.vocabulary"]))}
        metadata = json.loads(texts["edge_embed.metadata"])
        self._token, self.labels = re.compile(metadata["tokenizer"]), metadata["labels"].split()
        self._interpreter = open_litert(path, delegate)  # must outlive the runners
        names = self._interpreter.get_signature_list()
        runners = [self._interpreter.get_signature_runner(name) for name in names]
        self._runners = {runner.get_input_details()["ids"]["shape"][1]: runner for runner in runners}

    def encode(self, text: str) -> NDArray[np.int32]:
        """Return ids [1, length], padded to the shortest length that holds the text, or cut to the longest."""
        words = [self._ids.get(word, UNKNOWN) for word in self._token.findall(text.lower())]
        length = min((length for length in self._runners if length >= len(words)), default=max(self._runners))
        ids = np.full((1, length), PADDING, np.int32)
        ids[0, : len(words)] = words[:length]
        return ids

    def run(self, ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return logits [classes] of ids [1, length]."""
        (logits,) = self._runners[ids.shape[1]](ids=ids).values()
        found: NDArray[np.float32] = logits[0]
        return found

    def answer(self, text: str) -> str:
        """Return the likeliest label."""
        return str(self.labels[self.run(self.encode(text)).argmax()])
