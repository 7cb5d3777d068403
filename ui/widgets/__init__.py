"""Parts that several features are built of."""
