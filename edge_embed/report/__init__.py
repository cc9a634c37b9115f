"""Results as dataclasses, and how they are shown."""
