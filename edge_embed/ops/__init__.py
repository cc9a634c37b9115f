"""Torch operators that stay one opaque node in a saved program: one file for each method, plus recurrent layers."""
