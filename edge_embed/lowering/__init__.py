"""Lowering: from the training form of a program to packed tables, one file a method."""
