"""How commands speak: streams, tables, progress, crashes."""
