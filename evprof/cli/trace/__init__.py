"""`evprof trace`: what a torch trace tells, in tables or as JSON."""
