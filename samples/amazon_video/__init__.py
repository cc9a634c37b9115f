"""Recommender that predicts the next item of a user from the previous ones."""
