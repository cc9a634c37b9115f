"""Reports as one self-contained HTML page: no network, no scripts; light, dark and printed."""
