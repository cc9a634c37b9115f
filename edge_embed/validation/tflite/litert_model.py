"""A TFLite file in LiteRT as one side of a comparison."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from edge_embed.targets.tflite.litert import LiteRtModel
from edge_embed.validation.timing import Feeds


class BoundModel:
    """A model resized for inputs of one size; inputs of a single call are set before the clock runs.

    Args:
        model: the model of this side.
        feeds: inputs of the sizes of the calls.
        calls: number of calls of `run`; with several, the time includes setting their inputs.

    Raises:
        RuntimeError: LiteRT refuses inputs of these sizes.
        ValueError: the model has other inputs.
    """

    def __init__(self, model: LiteRtModel, feeds: Feeds, calls: int = 1) -> None:
        self._model, self._calls = model, calls
        self._model.resize(feeds)
        self._feeds: Sequence[Feeds] = ()

    @property
    def calls(self) -> int:
        """Return the number of calls of `run`."""
        return self._calls

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Set new values, one set per call."""
        self._feeds = feeds
        if self._calls == 1:
            self._model.set_inputs(feeds[0])

    def run(self) -> None:
        """Run all calls in sequence."""
        if self._calls == 1:
            self._model.invoke()
            return
        for feeds in self._feeds:
            self._model.set_inputs(feeds)
            self._model.invoke()

    def results(self) -> tuple[NDArray[Any], ...]:
        """Return the outputs of the last call."""
        return tuple(self._model.outputs())
