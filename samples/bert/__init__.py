"""BERT with its table trained from scratch: masked words first, then classes of texts."""
