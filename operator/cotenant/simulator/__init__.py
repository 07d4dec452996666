"""The same core on a virtual clock, fed by traces."""
