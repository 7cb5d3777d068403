"""What the commands say of themselves, read from their parsers: help, man page, completions, reference."""
