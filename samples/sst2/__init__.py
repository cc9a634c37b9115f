"""Sentiment of phrases of film reviews: an LSTM, with a dense table and with compressed ones."""
