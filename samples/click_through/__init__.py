"""Predictor of clicks with three tables: whether a user clicks an item."""
