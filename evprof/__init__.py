"""evprof: a visual profiler for event-camera and video language models."""

from evprof.version import __version__ as __version__
