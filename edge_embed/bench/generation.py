"""Greedy generation with ONNX Runtime GenAI, as a contender of a benchmark."""

import copy
import json
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from edge_embed.errors import BadInputError, one_line
from edge_embed.importers.genai_folder import CUSTOM_OPS_LIBRARY, GENAI_CONFIG, GenaiFolder
from edge_embed.validation.timing import Feeds

PROMPT = "ids"  # key of the ids of a prompt in the inputs of a round


class Decoder:
    """An open model, with an operator library or without one; it is closed with ``stack``.

    The runtime takes the library from the configuration. So a folder with a configuration and a library of its own, and
    links to the ``files`` of the model, is opened in place of the given one: no library of the given folder is loaded.
    """

    def __init__(
        self, folder: GenaiFolder, files: Sequence[Path], library: Path | None, threads: int, stack: ExitStack
    ) -> None:
        import onnxruntime_genai  # noqa: PLC0415

        self._genai, self._window = onnxruntime_genai, folder.window
        linked = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = copy.deepcopy(folder.config)
        options = config["model"]["decoder"].setdefault("session_options", {})
        options.pop(CUSTOM_OPS_LIBRARY, None)
        options |= {"intra_op_num_threads": threads, "log_severity_level": 4}
        if library is not None:
            shutil.copyfile(library, linked / library.name)
            options[CUSTOM_OPS_LIBRARY] = library.name
        (linked / GENAI_CONFIG).write_text(json.dumps(config), encoding="utf-8")
        for file in map(Path.resolve, files):
            place = linked / file.relative_to(folder.path.resolve())
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(file)
        try:
            self._model = onnxruntime_genai.Model(str(linked))
        except Exception as error:  # the runtime's exceptions share no base class
            version = onnxruntime_genai.__version__
            raise BadInputError(
                f"{folder.path}: ONNX Runtime GenAI {version} cannot open it: {one_line(error)}"
            ) from error

    def generator(self, length: int) -> Any:
        """Return a generator of at least ``length`` tokens, with the prompt."""
        given = self._genai.GeneratorParams(self._model)
        length = max(length, self._window)  # the runtime refuses a shorter cache
        given.set_search_options(max_length=length, min_length=length, do_sample=False)
        return self._genai.Generator(self._model, given)


class FirstToken:
    """Contender that processes a prompt and generates one token."""

    calls = 1

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Set the prompt of the round."""
        self._prompt = feeds[0][PROMPT].astype(np.int32)
        self._generator = self._decoder.generator(len(self._prompt) + 1)

    def run(self) -> None:
        """Process the prompt and generate the token."""
        self._generator.append_tokens(self._prompt)
        self._generator.generate_next_token()


class NewTokens:
    """Contender that generates tokens behind a prompt and its first token, which are not timed."""

    def __init__(self, decoder: Decoder, new_tokens: int) -> None:
        self._decoder, self.calls = decoder, new_tokens

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Process the prompt of the round, and generate the first token."""
        prompt = feeds[0][PROMPT].astype(np.int32)
        self._generator = self._decoder.generator(len(prompt) + 1 + self.calls)
        self._generator.append_tokens(prompt)
        self._generator.generate_next_token()

    def run(self) -> None:
        """Generate the tokens."""
        for _ in range(self.calls):
            self._generator.generate_next_token()
