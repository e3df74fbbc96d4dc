"""BERT of Hugging Face, made from a configuration, within a budget.

Needs transformers. For its Trainer there is a callback:
lowtide.pytorch.integrations.huggingface.MemoryBudget.
"""

import torch
import torch.nn as nn
from comparison import Example, main
from transformers import BertConfig, BertForMaskedLM


class Loss(nn.Module):
    """The loss alone of a model that also gives its logits."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, labels):
        return self.model(input_ids=tokens, labels=labels).loss


def make(full):
    batch, length, layers, width = (8, 256, 8, 512) if full else (4, 64, 2, 64)
    vocabulary = 8192 if full else 256
    model = BertForMaskedLM(BertConfig(
        vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=width // 32, intermediate_size=4 * width,
        max_position_embeddings=length, attn_implementation="eager"))
    tokens = torch.randint(0, vocabulary, (batch, length))
    return Example(Loss(model), (tokens, tokens),
                   tuple((layer, "forward") for layer in model.bert.encoder.layer))


if __name__ == "__main__":
    main(__doc__, make, budgets=["70%"], full_budgets=["60%", "40%"])
