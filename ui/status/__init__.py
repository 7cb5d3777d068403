"""The foot of the window: what goes on, on which machine, and what recording costs there."""
