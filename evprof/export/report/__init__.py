"""Reports: what a set of runs says, as sections of text, tables and plots, written as Markdown or as one HTML file."""
