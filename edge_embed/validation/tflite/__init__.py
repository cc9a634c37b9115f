"""Validation of TFLite files: the same questions as of ONNX files, on the two runtimes that read them."""
