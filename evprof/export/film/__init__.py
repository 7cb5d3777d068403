"""A run, or a pair of runs, as a film: the scene, the stages and the words on one clock; MP4 or GIF, drawn without a
window."""
