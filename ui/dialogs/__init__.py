"""Dialogs and popovers: model choice, shortcuts, about, export."""
