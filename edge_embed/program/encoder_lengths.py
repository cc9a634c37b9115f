"""Names of the lengths of a model with encoder, decoder and a cache (`edge_embed.importers.cached_encoder_decoder`)."""

SOURCE, PAST_SOURCE = "encoder_sequence_length", "past_encoder_sequence_length"
TARGET, PAST_TARGET = "decoder_sequence_length", "past_decoder_sequence_length"
