"""What the Help menu opens: pages, keys, licences and what this program is."""
