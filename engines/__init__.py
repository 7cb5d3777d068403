"""The models and how they run; the only place that imports torch and transformers, and not before it must."""
