"""``compress`` for TFLite files of any converter: their dense tables, and packed tables in their place."""
