"""Statistics of plain numbers."""
