"""What `import evprof` offers scripts and notebooks: sessions as tables, and runs of a pair. Stands above the commands,
whose options and checks it shares; needs neither Qt nor torch."""
