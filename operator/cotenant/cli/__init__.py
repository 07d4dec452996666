"""The `cotenant` command and the kubectl plugin. A verb imports heavy packages inside its functions."""
