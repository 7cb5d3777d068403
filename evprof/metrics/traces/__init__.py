"""Numbers from a torch trace: where its time went, by operator, kernel and module, and what memory did meanwhile.

The figures are those of torch-tb-profiler 0.4.3, computed on columns; `docs/traces.md` says where they differ and why.
"""
