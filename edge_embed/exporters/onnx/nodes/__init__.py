"""Schemas of our nodes: their inputs, attributes, and the sizes of the table that they describe. Needs no onnx."""
