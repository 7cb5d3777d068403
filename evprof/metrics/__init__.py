"""Numbers computed from what a run recorded; they know no model, file or window."""
