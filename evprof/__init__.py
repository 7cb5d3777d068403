"""evprof: a visual profiler for event-camera and video language models."""

__version__ = "0.2.0"
