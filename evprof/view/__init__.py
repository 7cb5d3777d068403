"""Picture arithmetic: scales, lanes, decimation, colours; it knows no toolkit."""
