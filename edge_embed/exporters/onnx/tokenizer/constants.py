"""Constants that the textual syntax of ONNX cannot say."""

from onnx import TensorProto


def strings(*values: str) -> TensorProto:
    """A tensor [number of values] of strings."""
    return TensorProto(dims=[len(values)], data_type=TensorProto.STRING, string_data=[text.encode() for text in values])
