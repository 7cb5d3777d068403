"""Suites: what is asked, the rows it comes to, and carrying them out however often it takes."""
