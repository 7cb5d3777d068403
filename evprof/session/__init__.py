"""The session file: one SQLite file holding everything a run recorded."""
