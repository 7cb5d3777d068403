"""What lanes and the ways through them rest on: places on the axis, flows between them, the order of the lanes."""
