"""The constant that a tensor of a TFLite file represents: itself, its dequantised numbers, or a call's argument."""

from typing import Any, NamedTuple

from edge_embed.compression.tflite.subgraph_calls import Call, call_of, numbers, operator_name

_ENTRY = 0  # the subgraph that runs if there is no signature


class Origin(NamedTuple):
    """A constant.

    Attributes:
        graph: number of the subgraph that declares it.
        number: number of its tensor there.
        dequantized: whether a ``DEQUANTIZE`` is between.
    """

    graph: int
    number: int
    dequantized: bool = False


class Origins:
    """Finds the constants of a model, of the schema's classes."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._found: dict[tuple[int, int], Origin | None] = {}
        self._entries = {_ENTRY, *(signature.subgraphIndex for signature in model.signatureDefs or ())}
        self._callers: dict[int, list[Call]] = {}
        self._bodies: set[int | None] = set()
        self.producers: list[dict[int, Any]] = []
        for number, graph in enumerate(model.subgraphs):
            made = [(tensor, operator) for operator in graph.operators for tensor in numbers(operator.outputs)]
            self.producers.append(dict(made))
            for call in filter(None, (call_of(model, number, operator) for operator in graph.operators)):
                self._bodies.add(call.body)
                for called in dict.fromkeys(call.called):
                    self._callers.setdefault(called, []).append(call)

    def of(self, graph: int, number: int) -> Origin | None:
        """Return the constant that a tensor represents, or None if it is computed or supplied."""
        if (graph, number) not in self._found:
            self._found[graph, number] = None  # damaged files may contain a cycle
            self._found[graph, number] = self._search(graph, number)
        return self._found[graph, number]

    def kept(self, graph: int) -> set[int]:
        """Return the tensors that the body of a loop returns unchanged; the operator of the loop reads them."""
        inputs, outputs = (
            numbers(each) for each in (self._model.subgraphs[graph].inputs, self._model.subgraphs[graph].outputs)
        )
        return {
            taken for taken, given in zip(inputs, outputs, strict=False) if taken == given and graph in self._bodies
        }

    def tensor(self, origin: Origin) -> Any:
        """Return the tensor of a constant."""
        return self._model.subgraphs[origin.graph].tensors[origin.number]

    def is_same(self, one: Origin, other: Origin) -> bool:
        """Return whether two constants have the same content with the same interpretation."""
        return one == other or _meaning(self.tensor(one)) == _meaning(self.tensor(other))

    def _search(self, graph: int, number: int) -> Origin | None:
        tensor = tensor_of(self._model.subgraphs[graph], number)
        if has_content(self._model, tensor):
            return Origin(graph, number)
        operator = self.producers[graph].get(number)
        if operator is None:
            return self._given(graph, number)
        if operator_name(self._model, operator) == "DEQUANTIZE":
            origin = self.of(graph, numbers(operator.inputs)[0])
            return None if origin is None or origin.dequantized else origin._replace(dequantized=True)
        call = call_of(self._model, graph, operator)
        if call is None or call.body is None:
            return None
        at = numbers(operator.outputs).index(number)
        return self.of(graph, call.arguments[at]) if call.stays(self._model, at) else None

    def _given(self, graph: int, number: int) -> Origin | None:
        """Return the constant that all callers supply for an input, or None."""
        inputs = numbers(self._model.subgraphs[graph].inputs)
        callers = self._callers.get(graph, ())
        if graph in self._entries or number not in inputs or not callers:
            return None
        at = inputs.index(number)
        given = [self.of(call.graph, call.arguments[at]) for call in callers if call.stays(self._model, at)]
        first = given[0] if given else None
        if first is None or len(given) < len(callers):
            return None
        same = all(each and each.dequantized == first.dequantized and self.is_same(each, first) for each in given)
        return first if same else None


def tensor_of(graph: Any, number: int) -> Any:
    """Return a tensor by its number, which may be negative in a damaged file."""
    if number < 0:
        raise IndexError(f"tensor {number}")
    return graph.tensors[number]


def has_content(model: Any, tensor: Any) -> bool:
    """Return whether a file has the content of a tensor."""
    if not 0 <= tensor.buffer < len(model.buffers):
        raise IndexError(f"buffer {tensor.buffer}")
    content = model.buffers[tensor.buffer].data
    return content is not None and len(content) > 0


def _meaning(tensor: Any) -> tuple[Any, ...]:
    scales = tensor.quantization
    parts = () if scales is None else (scales.scale, scales.zeroPoint, scales.quantizedDimension, scales.detailsType)
    return (tensor.buffer, tensor.type, tuple(numbers(tensor.shape)), *map(_comparable, parts))


def _comparable(part: Any) -> Any:
    return part.tobytes() if hasattr(part, "tobytes") else tuple(part) if isinstance(part, list) else part
