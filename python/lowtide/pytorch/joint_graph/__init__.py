"""AOTAutograd's joint graph of a forward and a backward pass: what it says of itself, its casts."""
