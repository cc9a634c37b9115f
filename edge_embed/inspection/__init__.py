"""Inspection of files and of the installation: content, damage, missing parts."""
