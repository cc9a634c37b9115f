"""Peers of a compressed table: one file for each library, all of them listed in ``listed.py``."""
