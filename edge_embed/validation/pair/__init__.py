"""Validation of a file that was compressed in place beside the one it was made from."""
