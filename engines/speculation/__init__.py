"""Rounds of speculative decoding: drafted, verified, judged."""
