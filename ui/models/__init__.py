"""What the views show, as plain values and small state objects; most of it runs without a widget."""
