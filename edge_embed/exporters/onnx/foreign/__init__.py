"""ONNX files of other tools: their dense tables, and packed ones in the place of these."""
