"""Memory that a session with the operator library takes beside a table, to be faster. Needs no onnx."""
