"""``node`` and ``browser``: onnxruntime-web, which is WebAssembly and so runs the portable bodies."""
