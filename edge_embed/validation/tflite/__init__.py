"""Validation of TFLite files: the checks of ONNX files, on the two runtimes that read TFLite."""
