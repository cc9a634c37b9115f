"""A tokenizer in front of an exported model, with operators of onnxruntime-extensions: the model accepts strings."""
