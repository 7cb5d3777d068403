"""Ways through the timeline: keys, history, the overview, marks, menus."""
