"""What the window shows to somebody who has nothing open yet: recent sessions, the demo."""
