"""Torch operators that stay one opaque node in a saved program: one file a method, plus recurrent layers."""
