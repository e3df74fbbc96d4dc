"""Time and peak of a graph as Inductor would compile it, without lowering it."""
