"""Lowering: replaces the training form of a program by packed tables, one file for each method."""
