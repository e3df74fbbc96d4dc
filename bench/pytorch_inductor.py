"""Inductor alone, with PyTorch's activation memory budget, and with Lowtide's plans: peak and time.

Each in a fresh process, the processes taking turns. Lowtide gets the peak that PyTorch's budget led
to, and measures until it holds. The peak is what a training step allocates above what exists before
it, gradients among it, by the events of PyTorch's profiler in a step that is not timed.

    bench/pytorch_inductor.py unet --batch 4 --rounds 2
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAYS = ("inductor", "pytorch-budget", "lowtide")
MIB = 1 << 20


def main():
    arguments = parsed()
    if arguments.way:
        print(json.dumps(one_process(arguments)))
        return
    rows = {way: [] for way in WAYS}
    for _ in range(arguments.rounds):
        for way in WAYS:
            limit = rows["pytorch-budget"][0]["peak"] if way == "lowtide" else 0
            rows[way].append(in_fresh_process(way, limit))
            print(way, json.dumps(rows[way][-1]), file=sys.stderr)
    print_table(arguments, rows)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", choices=("unet", "gpt"))
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--part", type=float, default=0.5,
                        help="PyTorch's activation memory budget")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=10.0, help="of planning, in seconds")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def in_fresh_process(way, limit):
    command = [sys.executable, __file__, *sys.argv[1:], "--way", way, "--limit", str(limit)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def print_table(arguments, rows):
    alone = rows["inductor"]
    print(f"{arguments.model}, batch {arguments.batch}, {arguments.threads} threads, PyTorch's "
          f"budget {arguments.part}, medians of {arguments.rounds} processes, fastest of "
          f"{arguments.steps} steps")
    print(f"{'':16}{'peak MiB':>10}{'ratio':>8}{'s a step':>10}{'ratio':>8}{'CPU s':>10}"
          f"{'ratio':>8}{'compiled s':>12}")
    for way, found in rows.items():
        print(f"{way:16}{of(found, 'peak') / MIB:10.1f}{of(found, 'peak') / of(alone, 'peak'):8.3f}"
              + "".join(f"{of(found, key):10.3f}{of(found, key) / of(alone, key):8.3f}"
                        for key in ("seconds", "processor_seconds"))
              + f"{of(found, 'compile_seconds'):12.1f}")


def of(found, key):
    return statistics.median(row[key] for row in found)


# ---- In the fresh process


def one_process(arguments):
    """Peak in bytes, seconds of the fastest step on the clock and of the processors, and seconds
    until the model ran compiled."""
    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "python")]
    import torch

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model, inputs = model_of(arguments)
    begin = time.perf_counter()
    compiled, more = compiled_by(arguments, model, inputs)
    peak = peak_of_step(model, compiled, inputs)
    compile_seconds = time.perf_counter() - begin
    seconds, of_processor = [], []
    for _ in range(arguments.steps):
        begin, begin_of_processor = time.perf_counter(), time.process_time()
        compiled(*inputs).backward()
        model.zero_grad()
        seconds.append(time.perf_counter() - begin)
        of_processor.append(time.process_time() - begin_of_processor)
    return {"peak": peak, "seconds": min(seconds), "processor_seconds": min(of_processor),
            "compile_seconds": compile_seconds, **more}


def model_of(arguments):
    import torch
    import torch_models

    class WithLoss(torch.nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x, target):
            return torch_models.loss(self.net(x), target)

    if arguments.model == "unet":
        net = torch_models.build("unet", width=16, layers=3)
        shape = (arguments.batch, 128, 128)
        inputs = torch.randn(arguments.batch, 3, 128, 128), torch.randint(0, 4, shape)
    else:
        net = torch_models.build("gpt", layers=4, width=256, heads=8, sequence=256)
        inputs = tuple(torch.randint(0, 256, (arguments.batch, 256)) for _ in range(2))
    return WithLoss(net), inputs


def compiled_by(arguments, model, inputs):
    import torch
    from torch._functorch import config

    if arguments.way == "lowtide":
        from lowtide.pytorch.inductor import compile_within

        fitted = compile_within(
            model, arguments.limit, lambda compiled: peak_of_step(model, compiled, inputs),
            time_limit=arguments.time_limit)
        return fitted.model, {"rounds": fitted.rounds, "overhead": fitted.planned.overhead}
    if arguments.way == "pytorch-budget":
        config.activation_memory_budget = arguments.part
    return torch.compile(model, fullgraph=True, dynamic=False), {}


def peak_of_step(model, compiled, inputs):
    """What a step allocates at most above what is there before it, in bytes; compiles first."""
    import torch
    from torch_memory import profiled

    def step():
        compiled(*inputs).backward()

    torch._dynamo.config.recompile_limit = 64
    step()
    model.zero_grad()
    peak, _, _ = profiled(step)
    model.zero_grad()
    return peak


if __name__ == "__main__":
    main()
