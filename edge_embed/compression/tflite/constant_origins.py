"""Which constant of a TFLite file a tensor is: itself, its dequantised numbers, or what a call was given."""

from typing import Any, NamedTuple

from edge_embed.compression.tflite.subgraph_calls import Call, call_of, numbers, operator_name

_ENTRY = 0  # the subgraph that runs where there is no signature


class Origin(NamedTuple):
    """A constant.

    Attributes:
        graph: number of the subgraph that declares it.
        number: of its tensor there.
        dequantized: whether ``DEQUANTIZE`` comes between.
    """

    graph: int
    number: int
    dequantized: bool = False


class Origins:
    """The constants of a model, of the schema's classes."""

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
        """The constant that a tensor is, None if it is computed or given."""
        if (graph, number) not in self._found:
            self._found[graph, number] = None  # damaged files may lead here again
            self._found[graph, number] = self._search(graph, number)
        return self._found[graph, number]

    def kept(self, graph: int) -> set[int]:
        """Tensors that the body of a loop takes and gives back as they are: who runs it reads them."""
        inputs, outputs = (
            numbers(each) for each in (self._model.subgraphs[graph].inputs, self._model.subgraphs[graph].outputs)
        )
        return {
            taken for taken, given in zip(inputs, outputs, strict=False) if taken == given and graph in self._bodies
        }

    def tensor(self, origin: Origin) -> Any:
        """The tensor of a constant."""
        return self._model.subgraphs[origin.graph].tensors[origin.number]

    def is_same(self, one: Origin, other: Origin) -> bool:
        """Whether two constants have the same content, and mean the same by it."""
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
        """The constant that all callers give in the place of an input."""
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
    """A tensor by its number, which a damaged file may have below 0."""
    if number < 0:
        raise IndexError(f"tensor {number}")
    return graph.tensors[number]


def has_content(model: Any, tensor: Any) -> bool:
    """Whether a file has the content of a tensor."""
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
