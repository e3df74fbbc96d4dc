"""PyTorch models within a budget of bytes. Needs torch; ``import lowtide`` alone does not."""
