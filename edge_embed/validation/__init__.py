"""Compares an exported file with the model it came from: rows, outputs, sizes, latency."""
