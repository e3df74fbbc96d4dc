"""One way to train one model of Hugging Face, in this process: prints its figures as JSON.

Every byte of the framework's allocator counts, from before the model is made. Peaks and times are
of whole steps (forward, backward, update) after the first, which compiles, measures or plans.
"""

import argparse
import hashlib
import json
import tempfile
import time
import warnings

import torch
from counter import Counter

STEPS = 8
LEARNING_RATE = 1e-3


class Steps:
    """Peak and seconds of each step; to be told when one begins and ends."""

    def __init__(self, counter):
        self._counter, self.peaks, self.seconds = counter, [], []

    def begin(self):
        self._counter.forget_peak()
        self._began = time.perf_counter()

    def end(self):
        self.seconds.append(time.perf_counter() - self._began)
        self.peaks.append(self._counter.peak())


def own_loop(module, batch, tool, budget, steps):
    optimizer = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE)
    if tool == "checkpointing":
        module.gradient_checkpointing_enable()
    if tool == "lowtide":
        import lowtide
        module = lowtide.wrap(module, batch, budget=budget, optimizer=optimizer)
    torch.manual_seed(2)
    losses = []
    for _ in range(STEPS):
        steps.begin()
        loss = module(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        del loss
        steps.end()
    return losses


def trainer(module, batch, tool, budget, steps):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Count(TrainerCallback):
        def on_step_begin(self, *_, **__):
            steps.begin()

        def on_step_end(self, *_, **__):
            steps.end()

    callbacks = [Count()]
    if tool == "lowtide":
        from lowtide.pytorch.integrations.huggingface import MemoryBudget
        callbacks.append(MemoryBudget(budget))
    rows = [{name: values[row] for name, values in batch.items()}
            for row in range(len(next(iter(batch.values()))))]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=STEPS, per_device_train_batch_size=len(rows), seed=2,
            learning_rate=LEARNING_RATE, gradient_checkpointing=tool == "checkpointing",
            logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True)
        run = Trainer(module, arguments, train_dataset=rows, callbacks=callbacks)
        run.train()
    return [entry["loss"] for entry in run.state.log_history if "loss" in entry]


DOORS = {"wrap": own_loop, "trainer": trainer}


def fingerprint(module, losses):
    """A hash of all losses, parameters and buffers: bit for bit."""
    digest = hashlib.sha256(repr(losses).encode())
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--door", choices=DOORS, required=True)
    parser.add_argument("--tool", choices=["eager", "checkpointing", "lowtide"], required=True)
    parser.add_argument("--budget", type=int, help="bytes, for lowtide")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()

    counter = Counter()
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    import huggingface_models
    module, batch = huggingface_models.build(arguments.model)
    steps, base = Steps(counter), counter.now()
    losses = DOORS[arguments.door](module, batch, arguments.tool, arguments.budget, steps)
    print(json.dumps({"base_bytes": base, "first_peak_bytes": steps.peaks[0],
                      "peak_bytes": max(steps.peaks[1:]), "step_s": min(steps.seconds[1:]),
                      "bits": fingerprint(module, losses)}))


if __name__ == "__main__":
    main()
