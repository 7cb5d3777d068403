"""AEDAT captures of DVS and DAVIS cameras: versions 2.0 (jAER), 3.1 (cAER) and 4 (DV)."""
