"""What a checkpoint is and how much it computes, told without reading weights."""
