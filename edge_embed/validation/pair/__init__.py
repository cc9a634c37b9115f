"""Validation of a file that was compressed in place against its original."""
