"""What the scripts of `bench` are made of. Only they come in; nothing here is started from a command line."""
