"""How the CUDA add-on's list of wheels is made, and the folder of wheels from it."""
