"""Language model of WikiText-2 with an output layer of its own."""
