"""How the bundled tiny model pair is made: scenes, sensors, captions, tokenizer, training and evaluation.

Run ``python -m engines.tiny --help``. Nothing else of evprof needs this package at run time.
"""
