"""A word language model whose output layer shares the embedding table."""
