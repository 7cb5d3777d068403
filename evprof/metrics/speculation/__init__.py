"""What speculation achieved, cost and could achieve."""
