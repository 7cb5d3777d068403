"""Triton kernels of the decode step; imported only where Triton is."""
