"""One box that finds everything: what the window can do, settings, runs, spans and words of the answers."""
