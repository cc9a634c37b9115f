"""Where an exported file can be run: here, under an emulator, on a device, in a browser; one file a target."""
