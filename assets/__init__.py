"""Run-time files: icons, themes, a font, the bundled model pair and samples."""
