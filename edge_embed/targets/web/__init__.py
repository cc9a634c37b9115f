"""Targets ``node`` and ``browser``: onnxruntime-web, which is WebAssembly and therefore runs the portable bodies."""
