"""Trainings on two ranks by Accelerate, the Trainer of transformers and Lightning."""

import contextlib
import os

import torch
from shards_cases import adam, batches, made

VOCABULARY, LENGTH = 60, 16


@contextlib.contextmanager
def environment(rank, ranks):
    """That of torchrun, for a process that has a process group already."""
    values = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks,
              "GROUP_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500,
              "TORCHELASTIC_RUN_ID": "tests"}
    os.environ.update({name: str(value) for name, value in values.items()})
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)


def figures(model):
    """What a wrapped model or a switch says of its memory."""
    return model.memory.budget, model.memory.planned_peak, model.memory.measured_peak


# ---- A loop with Accelerate

def accelerator_of(rank, ranks, **options):
    from accelerate import Accelerator

    with environment(rank, ranks):
        return Accelerator(cpu=True, **options)


def loop(accelerator, model, optimizer, steps, accumulate=1):
    """Losses, and norms of gradients, of a loop as Accelerate's pages have it."""
    found = []
    for number, batch in enumerate(steps):
        last = (number + 1) % accumulate == 0
        context = contextlib.nullcontext() if last else accelerator.no_sync(model)
        with context:
            loss = model(*batch)
            accelerator.backward(loss)
        if last:
            norm = accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
            found.append(float(getattr(norm, "full_tensor", lambda: norm)()))
        found.append(loss.item())
    return found


def prepared(rank, ranks, case="gpt"):
    accelerator = accelerator_of(rank, ranks)
    model = made(case)
    return accelerator, *accelerator.prepare(model, adam(model))


def steps_of(case, rank):
    """With a smaller last batch."""
    return [*batches(case, rank, 5), *batches(case, rank, 1, rows=3)]


# ---- The Trainer of transformers

def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=1, n_head=2, n_positions=LENGTH, bos_token_id=0,
        eos_token_id=0, attn_implementation="eager", use_cache=False))


def rows(count, seed):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, VOCABULARY, (count, LENGTH), generator=generator)
    return [{"input_ids": row, "labels": row} for row in tokens]


def trainer(rank, ranks, folder, callbacks=(), **options):
    from transformers import Trainer, TrainingArguments

    options = {"max_steps": 6, "eval_strategy": "steps", "eval_steps": 3, "save_strategy": "no",
               "gradient_accumulation_steps": 2, "max_grad_norm": 0.5} | options
    with environment(rank, ranks):
        arguments = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=4, per_device_eval_batch_size=4,
            logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True, seed=5, **options)
        made = Trainer(model=gpt2(), args=arguments, train_dataset=rows(45, 1),
                       eval_dataset=rows(13, 2), callbacks=list(callbacks))
        assert made.accelerator.num_processes == ranks
        return made


def logged(made, *names):
    return [entry[name] for entry in made.state.log_history for name in names if name in entry]


# ---- Lightning

def classifier(outside=False):
    """Its loss is computed outside of ``net``; with ``outside`` a layer is there too."""
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(16, 64, bias=False), torch.nn.BatchNorm1d(64), torch.nn.ReLU(),
                torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
            self.last = torch.nn.Linear(4, 4) if outside else torch.nn.Identity()
            self.losses, self.validated = [], []

        def training_step(self, batch, index):
            loss = torch.nn.functional.cross_entropy(self.last(self.net(batch[0])), batch[1])
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch, index):
            loss = torch.nn.functional.cross_entropy(self.last(self.net(batch[0])), batch[1])
            self.validated.append(loss.item())

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    torch.manual_seed(0)
    return Classifier()


def fit(rank, ranks, folder, model, callbacks=(), epochs=1, resume=None, saves=None, **options):
    """Of 53 rows, in batches of 8 on each rank, the last one smaller. ``saves``: where the state
    goes after the second epoch."""
    import lightning

    class Saving(lightning.Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            if saves is not None and trainer.current_epoch == 1:
                trainer.save_checkpoint(saves)

    generator = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(53, 16, generator=generator),
                                          torch.randint(0, 4, (53,), generator=generator))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    with environment(rank, ranks):
        trainer = lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", strategy="ddp", devices=ranks, logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            default_root_dir=folder, callbacks=[*callbacks, Saving()], gradient_clip_val=0.5,
            num_sanity_val_steps=0, **options)
        trainer.fit(model, loader, loader, ckpt_path=resume)
    return trainer


