"""Ways through the timeline: keys, history, the overview, places to go to, what connects them, and what is kept."""
