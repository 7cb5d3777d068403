"""How near the machine's limits a model ran."""
