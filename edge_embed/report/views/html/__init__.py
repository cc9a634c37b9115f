"""Reports as one HTML page that needs nothing else: no network, no scripts; light, dark and printed."""
