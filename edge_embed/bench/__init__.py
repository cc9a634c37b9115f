"""Benchmark of compressed tables against other libraries: random tables of a grid of shapes, or tables of a file."""
