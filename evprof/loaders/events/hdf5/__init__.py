"""Event recordings in HDF5: DSEC, M3ED and what resembles them, read in windows."""
