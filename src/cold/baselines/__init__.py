"""The other decoders: the same call as ours, the same samples, the same selection."""
