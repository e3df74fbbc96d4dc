"""Which of the candidate splits Inductor is to compile within a budget."""
