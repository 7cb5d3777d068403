"""What evprof has words for: settings, modes, families, drafters, figures. Everything else derives from it.

Each is described once, as frozen data. Help, the window's controls, suites, labels, validation and reports ask here.
"""
