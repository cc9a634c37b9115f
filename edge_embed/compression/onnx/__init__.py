"""``compress`` of ONNX files of any tool: their dense tables, and packed ones in the place of these."""
