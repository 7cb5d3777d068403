"""Measurements of the engine itself: the machine's ceilings, and how near to them which way of decoding comes."""
