"""Who proposes tokens in speculation: one protocol (`drafter`), one file for each kind."""
