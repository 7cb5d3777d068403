"""Commands that hurt evprof on purpose: processes killed at random, and very long use. Not installed."""
