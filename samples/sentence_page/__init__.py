"""A static sentence encoder in a web page: tokenizer, compressed table, and the mean of rows."""
