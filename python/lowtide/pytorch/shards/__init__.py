"""Training over the ranks of a mesh: collectives as ops of the joint graph, parameters in shards.

``prepared``: a model whose parameters are placed on the mesh. ``with_collectives``: a joint graph
that gathers parameters and reduces gradients.
"""
