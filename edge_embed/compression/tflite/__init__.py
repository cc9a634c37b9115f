"""``compress`` of TFLite files of any converter: their dense tables, and packed ones in the place of these."""
