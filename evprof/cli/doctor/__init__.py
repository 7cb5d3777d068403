"""`evprof doctor`: every part of an installation is one file that tells its facts and adds its problems."""
