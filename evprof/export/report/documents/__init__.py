"""The five analysis documents: every table, figure, plan item and question of them, and how a report answers each."""
