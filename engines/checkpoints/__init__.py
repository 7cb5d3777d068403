"""Checkpoint folders: their configuration, names of tensors, files of weights."""
