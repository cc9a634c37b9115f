"""Names in a TFLite file besides those of an ONNX file: constants only, so that reading a file is quick."""

# The metadata key of the layout of each table in the file, with the hashes of its tensors there.
LAYOUTS_KEY = "edge_embed.layouts"

# The metadata key of the manifest that the delegate reads (`runtime_ops/tflite`).
DELEGATE_KEY = "edge_embed.delegate"
