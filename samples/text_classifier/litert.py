"""What an app would do: runs the file on LiteRT, with the words that it holds itself. Needs no torch."""

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
    """An interpreter on one thread, with the delegate of this package or by the file's own operators."""
    from ai_edge_litert.interpreter import Interpreter, load_delegate  # noqa: PLC0415

    delegates = [load_delegate(str(edge_embed.get_delegate_path()))] if delegate else None
    return Interpreter(str(path), num_threads=1, experimental_delegates=delegates)


class FileClassifier:
    """An exported classifier: vocabulary, tokenizer and labels are read out of the file.

    Args:
        path: the ``.tflite`` file, with a signature for each of some lengths.
        delegate: run the look-ups by the kernels of this package.
    """

    def __init__(self, path: Path, delegate: bool = False) -> None:
        texts = read_tflite(path).metadata
        self._ids = {word: at for at, word in enumerate(json.loads(texts["edge_embed.vocabulary"]))}
        said = json.loads(texts["edge_embed.metadata"])
        self._token, self.labels = re.compile(said["tokenizer"]), said["labels"].split()
        self._interpreter = open_litert(path, delegate)  # the runners need it as long as they run
        names = self._interpreter.get_signature_list()
        runners = [self._interpreter.get_signature_runner(name) for name in names]
        self._runners = {runner.get_input_details()["ids"]["shape"][1]: runner for runner in runners}

    def encode(self, text: str) -> NDArray[np.int32]:
        """Ids [1, length], padded to the shortest length that holds the text, or cut to the longest."""
        words = [self._ids.get(word, UNKNOWN) for word in self._token.findall(text.lower())]
        length = min((length for length in self._runners if length >= len(words)), default=max(self._runners))
        ids = np.full((1, length), PADDING, np.int32)
        ids[0, : len(words)] = words[:length]
        return ids

    def run(self, ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """Ids [1, length] -> logits [classes]."""
        (logits,) = self._runners[ids.shape[1]](ids=ids).values()
        found: NDArray[np.float32] = logits[0]
        return found

    def answer(self, text: str) -> str:
        """The likeliest label."""
        return str(self.labels[self.run(self.encode(text)).argmax()])
