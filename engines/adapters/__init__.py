"""What can be trained for speculation, one file for each kind, and the folder such a thing lies in."""
