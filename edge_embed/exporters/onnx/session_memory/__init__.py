"""Session memory of a table with the operator library. Needs no onnx."""
