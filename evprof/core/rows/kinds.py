"""Kinds of columns of what is kept of each run, as `struct` calls them, and what stands for nothing in them."""

from __future__ import annotations

INTEGER, REAL, TEXT = "q", "d", "i"
"""int64, float64, and the number of a word as int32."""

NO_INTEGER, NO_TEXT = -(1 << 63), -1
"""Stand for nothing, as NaN does among reals."""

JUDGED = "judged_count"
"""The kept value that tells how many judgements a run has: of most runs none, which their rows need not tell."""

ROUNDS = "rounds_of"
"""The kept value that holds a run's rounds of speculation whole: verdicts read them of every run that drafts."""
