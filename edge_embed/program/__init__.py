"""Saved programs: capture of a model, and a reader that evaluates nothing from the file."""
