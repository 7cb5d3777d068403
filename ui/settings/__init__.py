"""The toolbar: models, mode and settings of the next run."""
