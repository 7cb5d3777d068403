"""Files and where they lie: opened safely, written whole, held by one process, folders of the user."""
