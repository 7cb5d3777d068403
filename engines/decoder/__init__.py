"""The language model: its forward pass, KV caches, decode steps, quantization."""
