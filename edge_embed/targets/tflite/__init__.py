"""TFLite files in the two Python runtimes that read them, each in a process of its own."""
