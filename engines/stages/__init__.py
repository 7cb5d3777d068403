"""The stages of a run before decoding, as every family shares them."""
