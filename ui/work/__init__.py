"""Long work beside the window: what is asked for, the queue, and the process that does it."""
