"""Tables that are trained already, as layers: what they learned, without training them again; one file a method."""
