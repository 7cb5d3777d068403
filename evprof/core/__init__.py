"""What everything else speaks of: events, samples, records, runs, errors and the clock."""
