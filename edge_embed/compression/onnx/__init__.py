"""``compress`` for ONNX files of any tool: their dense tables, and packed tables in their place."""
