"""Minimum share of a model that makes a table worth compressing."""

WORTH = 0.05  # of the parameters of a model: smaller tables cost accuracy and save nothing
