"""Writers of event recordings, pictures and videos; each streams, and leaves a whole file or none."""
