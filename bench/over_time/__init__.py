"""Whether Lowtide gets slower or needs more memory from one version to the next."""
