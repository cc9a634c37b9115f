"""What a TFLite file calls things beside those of an ONNX file: constants only, so that reading a file is quick."""

# The key of the metadata that says how each table lies in the file, and the hashes of its tensors there.
LAYOUTS_KEY = "edge_embed.layouts"

# That of the manifest that the delegate reads (`runtime_ops/tflite`).
DELEGATE_KEY = "edge_embed.delegate"
