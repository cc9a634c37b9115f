"""A TFLite file in LiteRT, in this process."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edge_embed.errors import BadInputError, EdgeEmbedError, one_line
from edge_embed.quiet import quiet_stderr
from edge_embed.runtime.library import get_delegate_path
from edge_embed.targets.tflite import worker


class LiteRtModel:
    """Interpreter whose inputs have the names from the file.

    Args:
        path: path of the file.
        delegate: whether it runs with the delegate of this package.
        threads: threads of one operator.

    Raises:
        BadInputError: LiteRT refuses the file, or the delegate does.
        EdgeEmbedError: the package ai-edge-litert is not installed, or the delegate is missing.
    """

    def __init__(self, path: Path, delegate: bool = False, threads: int = 1) -> None:
        try:
            from ai_edge_litert import interpreter as runtime  # noqa: PLC0415
        except ImportError as error:
            raise EdgeEmbedError('LiteRT is not installed: pip install "edge-embed[tflite]"') from error
        library = str(get_delegate_path()) if delegate else ""
        try:
            self._interpreter = worker.open_model(runtime, str(path), library, num_threads=threads)
        except (RuntimeError, ValueError) as error:
            raise BadInputError(f"{path}: LiteRT cannot open it: {one_line(error)}; export it again") from error
        self._inputs = worker.find_inputs(self._interpreter)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Return the names of the inputs, as calls give them."""
        return tuple(self._inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Return the names of the outputs, in the order of the file: those of the first signature, if it has any."""
        details, signatures = self._interpreter.get_output_details(), [*self._interpreter.get_signature_list()]
        own = self._interpreter.get_signature_runner(signatures[0]).get_output_details() if signatures else {}
        keys = {detail["name"]: key for key, detail in own.items()}
        return tuple(keys.get(detail["name"], detail["name"]) for detail in details)

    def resize(self, feeds: Mapping[str, NDArray[Any]]) -> None:
        """Allocate memory for inputs of these shapes.

        Raises:
            RuntimeError: LiteRT refuses these shapes.
            ValueError: the model has other inputs.
        """
        self._check_names(feeds)
        for name, value in feeds.items():
            self._interpreter.resize_tensor_input(self._inputs[name]["index"], value.shape)
        with quiet_stderr():  # it reports that it made a delegate of its own
            self._interpreter.allocate_tensors()

    def set_inputs(self, feeds: Mapping[str, NDArray[Any]]) -> None:
        """Set new values in the allocated shapes; values are converted to a narrower integer type of the model."""
        for name, value in feeds.items():
            found = self._inputs[name]
            self._interpreter.set_tensor(found["index"], worker.fitted(value, found["dtype"]))

    def invoke(self) -> None:
        """Call the model once.

        Raises:
            RuntimeError: the model refuses its inputs.
        """
        self._interpreter.invoke()

    def outputs(self) -> list[NDArray[Any]]:
        """Return copies of the results of the last call, in the order of the file."""
        return [self._interpreter.get_tensor(found["index"]) for found in self._interpreter.get_output_details()]

    def call(self, feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Call the model once with inputs of any shapes; of several signatures the one with these input shapes runs.

        Raises:
            RuntimeError: the model refuses its inputs.
            ValueError: the model has other inputs, or no signature for these shapes.
        """
        self._check_names(feeds)
        with quiet_stderr():
            _, outputs = self._run(dict(feeds))
        return outputs

    @cached_property
    def _run(self) -> worker.Run:
        return worker.find_run(self._interpreter)

    def _check_names(self, feeds: Mapping[str, NDArray[Any]]) -> None:
        if feeds.keys() != self._inputs.keys():
            raise ValueError(f"got inputs {', '.join(feeds)}, expected {', '.join(self._inputs)}")
