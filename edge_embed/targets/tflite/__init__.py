"""TFLite files in the two runtimes of Python that read them, each in a process of its own."""
