"""Traces of torch's profiler: a file of any size, plain or gzipped, to columns, block by block."""
