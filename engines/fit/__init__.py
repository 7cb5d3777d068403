"""Whether models fit into memory: arithmetic, sentences, advice."""
