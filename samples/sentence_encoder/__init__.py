"""MiniLM, whose table of words is half of it, with a compressed one in its place."""
