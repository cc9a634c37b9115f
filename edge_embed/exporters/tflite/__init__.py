"""TFLite target: tables as standard operators over packed buffers, for every runtime that reads the format."""
