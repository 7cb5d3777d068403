"""Result files of earlier benchmark scripts, read row by row and labelled by what their stages really cover."""
