"""News in four classes: the mean of word vectors, with a dense table and with compressed ones."""
