"""Word-level language model whose output layer shares the embedding table."""
