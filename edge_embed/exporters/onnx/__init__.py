"""ONNX target: packed operators as custom nodes, each with a body of standard operators in the same file."""
