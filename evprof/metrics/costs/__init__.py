"""What tokens cost: the KV cache by origin, frames in time and bytes, what would fit, and how stages grow."""
