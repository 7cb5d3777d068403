"""The window for traces of torch's profiler: where their time went, by operator, kernel, module and moment."""
