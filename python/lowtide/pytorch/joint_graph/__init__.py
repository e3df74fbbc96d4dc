"""What AOTAutograd's joint graph of a forward and a backward pass says of itself."""
