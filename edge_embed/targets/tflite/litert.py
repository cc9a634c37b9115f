"""A TFLite file in LiteRT, in this process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edge_embed.errors import BadInputError, EdgeEmbedError, one_line
from edge_embed.runtime.library import get_delegate_path
from edge_embed.targets.tflite.worker import fitted


class LiteRtModel:
    """An interpreter whose inputs have the names that the file gives them.

    Args:
        path: of the file.
        delegate: whether it runs with the delegate of this package.
        threads: of one operator.

    Raises:
        BadInputError: LiteRT refuses the file, or the delegate does.
        EdgeEmbedError: the package ai-edge-litert is not installed, or the delegate is missing.
    """

    def __init__(self, path: Path, delegate: bool = False, threads: int = 1) -> None:
        try:
            from ai_edge_litert.interpreter import Interpreter, load_delegate  # noqa: PLC0415
        except ImportError as error:
            raise EdgeEmbedError('LiteRT is not installed: pip install "edge-embed[tflite]"') from error
        delegates = [str(get_delegate_path())] if delegate else []
        try:
            loaded = [load_delegate(name) for name in delegates] or None
            self._interpreter: Any = Interpreter(str(path), num_threads=threads, experimental_delegates=loaded)
        except (RuntimeError, ValueError) as error:
            raise BadInputError(f"{path}: LiteRT refuses it: {one_line(error)}; export it again") from error
        details = self._interpreter.get_input_details()
        self._indices = {found["name"]: found["index"] for found in details}
        self._types = {found["name"]: found["dtype"] for found in details}

    def resize(self, feeds: Mapping[str, NDArray[Any]]) -> None:
        """Make room for inputs of these shapes.

        Raises:
            RuntimeError: LiteRT refuses these shapes.
            ValueError: the model has other inputs.
        """
        if feeds.keys() != self._indices.keys():
            raise ValueError(f"got inputs {', '.join(feeds)}, expected {', '.join(self._indices)}")
        for name, value in feeds.items():
            self._interpreter.resize_tensor_input(self._indices[name], value.shape)
        self._interpreter.allocate_tensors()

    def set_inputs(self, feeds: Mapping[str, NDArray[Any]]) -> None:
        """New values, of the shapes that there is room for; a converted model has int32 for any integers."""
        for name, value in feeds.items():
            self._interpreter.set_tensor(self._indices[name], fitted(value, self._types[name]))

    def invoke(self) -> None:
        """One call.

        Raises:
            RuntimeError: the model refuses its inputs.
        """
        self._interpreter.invoke()

    def outputs(self) -> list[NDArray[Any]]:
        """Copies of the results of the last call, in the order of the file."""
        return [self._interpreter.get_tensor(found["index"]) for found in self._interpreter.get_output_details()]
