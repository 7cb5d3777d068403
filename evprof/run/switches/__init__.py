"""`evprof bench switches`: every switch on against off."""
