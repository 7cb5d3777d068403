"""Triton's kernels for the fused decode step and who launches them; Triton is imported when first needed."""
