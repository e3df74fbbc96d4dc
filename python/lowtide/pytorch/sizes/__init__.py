"""Ranges of sizes: which dimensions are open, and a joint graph with open sizes at each of them."""
