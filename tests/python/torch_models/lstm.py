import torch
import torch.nn as nn

STRETCH = 8  # time steps that run() is given at once


class LSTM(nn.Module):
    """Unrolled; gates in the order input, forget, cell, output."""

    def __init__(self, layers=1, width=512, vocabulary=256):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.cells = nn.ModuleList(nn.Linear(2 * width, 4 * width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        embedded = self.embedding(tokens)
        zeros = embedded.new_zeros(embedded.shape[0], embedded.shape[2])
        hidden = [zeros] * len(self.cells)
        memory = [zeros] * len(self.cells)
        outputs = []
        inputs = embedded.unbind(1)
        for begin in range(0, len(inputs), STRETCH):
            more, hidden, memory = self.run(inputs[begin:begin + STRETCH], hidden, memory)
            outputs += more
        return self.head(torch.stack(outputs, 1))

    def run(self, inputs, hidden, memory):
        """(the last layer's outputs, hidden and memory by layer) after these time steps."""
        hidden, memory, outputs = list(hidden), list(memory), []
        for x in inputs:
            for k, cell in enumerate(self.cells):
                i, f, g, o = cell(torch.cat([x, hidden[k]], 1)).chunk(4, 1)
                memory[k] = torch.sigmoid(f) * memory[k] + torch.sigmoid(i) * torch.tanh(g)
                x = hidden[k] = torch.sigmoid(o) * torch.tanh(memory[k])
            outputs.append(x)
        return outputs, hidden, memory


MODELS = {"lstm": LSTM}
