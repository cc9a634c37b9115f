"""Objects of the TFLite schema as plain values, which compare by content."""

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Convert an object of the schema to plain values; None and empty lists become equal."""
    if hasattr(value, "__dict__"):
        return {key: plain(each) for key, each in vars(value).items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(each) for each in value] or None
    return value.item() if isinstance(value, np.generic) else value
