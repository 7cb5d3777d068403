"""The engine in this process or in one of its own, and the connection between them."""
