"""Plots of a report as SVG for HTML, and as bars of characters for Markdown."""
