"""Plans the training step of a Llama that need not fit into this machine's memory.

The model is made on PyTorch's device meta: nothing is allocated and nothing computed. Prints what
budgets would cost in time, by estimated costs. Default sizes are those of Llama 2 with 7 billion
parameters.
"""

import argparse
import time

import lowtide
import torch
from transformers import LlamaConfig, LlamaForCausalLM


class WithLoss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, labels=tokens).loss


def make(layers, width, batch, sequence):
    config = LlamaConfig(num_hidden_layers=layers, hidden_size=width, use_cache=False,
                         intermediate_size=11 * width // 4 // 64 * 64)
    with torch.device("meta"):
        model = LlamaForCausalLM(config).to(torch.bfloat16)
        return WithLoss(model).train(), torch.zeros(batch, sequence, dtype=torch.long)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, size in (("layers", 32), ("width", 4096), ("batch", 8), ("sequence", 2048)):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--time-limit", type=float, default=20, help="seconds for a plan")
    arguments = parser.parse_args()

    begin = time.monotonic()
    model, tokens = make(arguments.layers, arguments.width, arguments.batch, arguments.sequence)
    graph = lowtide.capture(model, tokens)
    everything = lowtide.replay(graph, lowtide.keep_all(graph)).peak_bytes
    print(f"{len(graph.ops)} ops captured in {time.monotonic() - begin:.0f} s; parameters "
          f"{lowtide.format_bytes(graph.resident_bytes)}, with gradients and all values "
          f"{lowtide.format_bytes(everything)}")
    for budget in ("75%", "50%", "40%", "30%"):
        found = lowtide.plan(graph, budget, time_limit=arguments.time_limit)
        told = found.message if found.plan is None else (
            f"+{found.overhead:.1%} time, at most {found.gap:.1%} from the best possible"
            if found.gap is not None else f"+{found.overhead:.1%} time")
        print(f"{budget} of it: {told}", flush=True)


if __name__ == "__main__":
    main()
