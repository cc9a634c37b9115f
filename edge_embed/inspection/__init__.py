"""Looks into files and into the installation: what is there, whether it is sound, what is missing."""
