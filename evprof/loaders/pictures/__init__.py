"""Events as pictures, and pictures as files."""
