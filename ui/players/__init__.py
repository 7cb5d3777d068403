"""Players of events and video, and the scrubber under them."""
