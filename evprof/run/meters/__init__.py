"""What tells the power that devices draw, and who reads it while a run goes on."""
