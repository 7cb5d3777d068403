"""`evprof cuda`: the CUDA add-on, a folder of wheels that brings NVIDIA GPUs to a CPU installation, offline."""
