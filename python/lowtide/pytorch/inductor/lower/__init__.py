"""What Inductor's own lowering and scheduling make of the two graphs."""
