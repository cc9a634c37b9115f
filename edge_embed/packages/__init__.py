"""Packages of the operator library for other platforms: `edge-embed package`.

The sources are those in this Python package, CMake builds them (``runtime_ops/CMakePresets.json``), and every result is
inspected, and executed where this machine can do so.
"""
