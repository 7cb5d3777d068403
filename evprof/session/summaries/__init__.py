"""What a session keeps of every run besides its rows and facts, and opening sessions of very many runs by it."""
