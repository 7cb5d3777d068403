"""The sections of a report, one function of the data in each file."""
