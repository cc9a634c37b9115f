"""Inflection of words in three languages, letter by letter."""
