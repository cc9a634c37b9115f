"""Runtime of exported files: the operator library, sessions and single kernels. It needs neither torch nor onnx."""
