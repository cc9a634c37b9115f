"""Translation of Multi30k with an output layer of its own."""
