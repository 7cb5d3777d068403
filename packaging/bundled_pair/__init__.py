"""How the bundled tiny model pair is made: scenes, sensors, grammar, tokenizer, training and evaluation.

Run ``python packaging/make_pair.py --help`` in a checkout. Neither the wheel nor the frozen program holds this package.
"""
