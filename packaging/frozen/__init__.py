"""What the frozen programs are made of: which modules, data and libraries go in, and which stay out."""
