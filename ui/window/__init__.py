"""The main window: its parts, menus and messages."""
