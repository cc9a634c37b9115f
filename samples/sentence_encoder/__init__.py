"""MiniLM with a compressed table of words; the dense table is half of the model."""
