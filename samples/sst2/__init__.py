"""Phrases of film reviews, praise or blame: an LSTM, with a dense table and with compressed ones."""
