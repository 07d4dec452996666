"""What `cotenant doctor` looks at: what makes a cluster work, and which platforms it is made of."""
