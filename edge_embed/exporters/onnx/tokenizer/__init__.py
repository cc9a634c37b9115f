"""A tokenizer in front of an exported model, by operators of onnxruntime-extensions: the model takes strings."""
