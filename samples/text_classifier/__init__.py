"""Sentiment of sentences: a small TFLite model, from training to LiteRT."""
