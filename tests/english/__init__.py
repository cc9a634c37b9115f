"""A lint of the English that users and engineers read: docstrings, documents and help texts."""
