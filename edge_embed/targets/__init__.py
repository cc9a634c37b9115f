"""Targets that run an exported file: this machine, an emulator, a device, a browser; one file for each target."""
