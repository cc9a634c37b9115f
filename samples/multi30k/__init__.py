"""English to German: a small Transformer with a table for each language."""
