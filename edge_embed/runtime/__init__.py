"""What runs exported files: the operator library, sessions, single kernels. Needs neither torch nor onnx."""
