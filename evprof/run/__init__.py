"""Running an engine, in this process or in one of its own, and keeping what it records."""
