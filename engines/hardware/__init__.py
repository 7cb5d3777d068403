"""The machine: device, memory, CPU threads, state of the GPU."""
