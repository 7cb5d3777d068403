"""Pages of the documentation that are written from the code, and what else `mkdocs.yml` needs of us."""
