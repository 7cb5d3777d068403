"""Commands that read sessions: show, compare, report, export, import."""
