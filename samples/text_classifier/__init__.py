"""Praise or blame: a small model of sentences in TFLite, from training to LiteRT."""
