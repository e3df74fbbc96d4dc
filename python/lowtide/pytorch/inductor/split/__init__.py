"""Joint graphs cut into a forward and a backward graph, by a plan or by PyTorch."""
