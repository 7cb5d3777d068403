"""Text and token ids: vocabularies, prompt layouts, the growing answer."""
