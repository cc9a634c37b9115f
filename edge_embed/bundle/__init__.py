"""Bundles: a folder with an exported model and everything that an app requires to check it before the first run."""
