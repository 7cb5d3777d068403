"""The training window: how adapters learned."""
