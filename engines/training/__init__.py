"""Teaching drafters: pairs of hidden states collected, adapters trained on them, held-out answers judged."""
