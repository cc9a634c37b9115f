"""Training layers, one file a method."""
