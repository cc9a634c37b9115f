"""Comparison of an exported file with its model: rows, outputs, sizes, latency."""
