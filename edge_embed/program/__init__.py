"""Saved programs: capturing a model, and reading it back without evaluating anything from the file."""
