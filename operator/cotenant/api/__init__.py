"""Documents that users write ⇄ values of the core. Input is parsed here, once; past this package there are no dicts."""
