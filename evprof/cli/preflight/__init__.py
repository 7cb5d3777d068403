"""What is tried before the engine starts: models, devices, inputs and places, each told in a sentence within a second.

Nothing here imports torch, which takes seconds, and no session is begun: what is refused here leaves nothing behind.
"""
