"""Importers of word-vector files from other tools, as programs that look up rows, and of transformers models.

There is one file for each format, and `recognize` selects it by content. A reader returns `Vectors` or `PackedVectors`,
and `lookup_program` makes a model of them. `byte_stream` reads plain and gzip files, and `row_tokens` holds the common
parts of formats with one row after the other. `fasttext_file` and `fasttext_model` hold the common parts of both
fastText formats, and `ngrams` computes the n-grams of words.
"""
