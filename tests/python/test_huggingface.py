"""Hugging Face models and Trainer within a budget: bits of the plain run, figures in the logs."""

import gc
import importlib
import sys

import lowtide
import pytest
import torch
from on_device import seeded
from sweep import sweep


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "lowtide.pytorch.integrations.huggingface", raising=False)
    with pytest.raises(lowtide.InputError, match="pip install transformers accelerate"):
        importlib.import_module("lowtide.pytorch.integrations.huggingface")


VOCABULARY = 101
LENGTH = 32


@pytest.fixture(scope="module")
def huggingface(one_thread):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    return importlib.import_module("lowtide.pytorch.integrations.huggingface")


def bert(attention):
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    return BertForMaskedLM(BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=LENGTH, attn_implementation=attention))


def gpt2(attention):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=2, n_positions=LENGTH,
        bos_token_id=0, eos_token_id=0, attn_implementation=attention, use_cache=False))


def examples(count):
    generator = seeded(1)
    tokens = torch.randint(0, VOCABULARY, (count, LENGTH), generator=generator)
    return [{"input_ids": row, "labels": row} for row in tokens]


def batch_of(rows):
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def train(model, folder, callbacks=(), data=None, **options):
    """Parameters after three steps of the Trainer, and its log."""
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=folder, max_steps=3, logging_steps=1,
        save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=5,
        **{"per_device_train_batch_size": 8, **options})
    trainer = Trainer(model=model, args=arguments, train_dataset=data or examples(40),
                      callbacks=list(callbacks))
    trainer.train()
    return model.state_dict(), trainer.state.log_history


def losses(log):
    return [entry["loss"] for entry in log if "loss" in entry]


def examples_that_count_unlike(count):
    """Each has another number of labels that count, every fifth one none."""
    for index, example in enumerate(found := examples(count)):
        example["labels"] = example["labels"].clone()
        example["labels"][0 if index % 5 == 2 else 1 + index * 7 % LENGTH:] = -100
    return found


@pytest.mark.parametrize("options", sweep([{}, {"slices": 2}], [{}]))
def test_micro_batches_count_by_their_tokens(huggingface, options, tmp_path):
    data, steps = examples_that_count_unlike(40), []
    for callbacks, settings in [
            ([], {"per_device_train_batch_size": 8}),
            ([], {"gradient_accumulation_steps": 8}),
            ([huggingface.MemoryBudget("90%", time_limit=0.3, **options)],
             {"gradient_accumulation_steps": 8})]:
        model = gpt2("sdpa")
        for layer in model.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0  # it would draw otherwise for parts
        trained, log = train(model, tmp_path, callbacks, data, optim="sgd", learning_rate=0.5,
                             **{"per_device_train_batch_size": 1, **settings})
        steps.append((trained, losses(log)))
    (whole, _), (parted, parted_losses), (ours, our_losses) = steps
    same_bits = not options
    for name, tensor in ours.items():
        assert torch.equal(tensor, parted[name]) or not same_bits
        torch.testing.assert_close(tensor, whole[name], rtol=1e-4, atol=1e-6)
    assert our_losses == pytest.approx(parted_losses, abs=0 if same_bits else 1e-4)


@pytest.mark.parametrize("make, attention", [(bert, "sdpa"), (gpt2, "eager")])
def test_the_trainer_trains_to_the_same_bits(huggingface, make, attention, tmp_path):
    plain, plain_log = train(make(attention), tmp_path)
    model = make(attention)
    gc.collect()  # what other tests left would be freed within a step, and count as taken by it
    budgets = []

    class Noting(huggingface.MemoryBudget):
        def on_log(self, *given, **named):
            super().on_log(*given, **named)
            budgets.append(self._in_place.memory.budget)

    state, log = train(model, tmp_path, [Noting("80%", time_limit=0.6)])
    assert all(torch.equal(state[name], plain[name]) for name in plain)
    assert losses(log) == losses(plain_log)
    assert "forward" not in model.__dict__
    figures = [entry for entry in log if "loss" in entry]
    # A better plan may come between a step and its figures, so the budget is what holds.
    found = [(budget, entry["lowtide_planned_bytes"], entry["lowtide_peak_bytes"])
             for entry, budget in zip(figures, budgets)]
    assert all(0 < planned <= budget for budget, planned, _ in found), found
    assert all(entry["lowtide_predicted_seconds"] > 0 for entry in figures)  # all metrics are there
    # The peak counts what else the process of the tests takes meanwhile.
    assert all(0 < peak <= 1.05 * budget for budget, _, peak in found), found


@pytest.mark.parametrize("options", sweep(
    [{}, {"bf16": True}, {"gradient_checkpointing": True}], usual=[{}, {"bf16": True}]),
    ids=["plain", "bf16", "checkpointing"])
def test_the_trainer_takes_a_wrapped_model(huggingface, options, tmp_path):
    plain, plain_log = train(gpt2("eager"), tmp_path, **options)
    model = lowtide.wrap(gpt2("eager"), batch_of(examples(8)), budget="85%", time_limit=0.3)
    state, log = train(model, tmp_path, **options)
    assert all(torch.equal(state[name], plain[name]) for name in plain)
    assert losses(log) == losses(plain_log)
    assert model.memory.measured_peak > 0


@pytest.mark.parametrize("options", sweep(
    [{"optim": "adafactor"}, {"gradient_checkpointing": True}],
    usual=[{"gradient_checkpointing": True}]), ids=["adafactor", "checkpointing"])
def test_the_callback_beside_other_options(huggingface, options, tmp_path):
    plain, _ = train(gpt2("sdpa"), tmp_path, **options)
    state, log = train(gpt2("sdpa"), tmp_path, [huggingface.MemoryBudget("85%", time_limit=0.3)],
                       **options)
    assert all(torch.equal(state[name], plain[name]) for name in plain)
    assert any(entry.get("lowtide_peak_bytes", 0) > 0 for entry in log)


def test_the_trainers_compilation_has_no_effect_and_a_warning_says_so(huggingface, tmp_path):
    _, eager = train(gpt2("sdpa"), tmp_path)
    with pytest.warns(UserWarning, match="torch_compile=True has no effect"):
        _, log = train(gpt2("sdpa"), tmp_path,
                       [huggingface.MemoryBudget(None, time_limit=0.3, verbose=False)],
                       torch_compile=True, torch_compile_backend="aot_eager")
    assert losses(log) == losses(eager)


@pytest.mark.cpu_only("budgets that count buffers for copies, as on the CPU")
def test_the_state_of_the_trainers_optimizer_moves(huggingface, tmp_path):
    plain, _ = train(gpt2("eager"), tmp_path, max_grad_norm=0.5, warmup_steps=2)
    found = []

    class Noting(huggingface.MemoryBudget):
        def on_log(self, *given, **named):
            found.append(self._in_place.memory.state_moved.bytes_out)

    offload = lowtide.Offload(tmp_path, bandwidth="1GB/s", optimizer_state=True)
    state, _ = train(gpt2("eager"), tmp_path, [Noting("32MiB", time_limit=0.3, offload=offload)],
                     max_grad_norm=0.5, warmup_steps=2)
    assert all(torch.equal(state[name], plain[name]) for name in plain)
    assert min(found) > 0


def test_updates_within_the_backward_pass_are_for_a_loop_of_ones_own(huggingface):
    how = lowtide.FusedUpdate(max_norm=0.1)
    with pytest.raises(lowtide.InputError, match="norm of all gradients"):
        huggingface.MemoryBudget("90%", fused_update=how)
    batch = batch_of(examples(4))
    norms, parameters = [], []
    for is_planned in (True, False):
        model = bert("eager").eval()
        optimizer = torch.optim.AdamW(model.parameters())
        budget = huggingface.enable_memory_budget(
            model, None, optimizer=optimizer, fused_update=how) if is_planned else None
        for _ in range(2):
            model(**batch).loss.backward()
            norms.append(budget.planned.gradient_norm if budget else
                         torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
            optimizer.step()
            optimizer.zero_grad()
        parameters.append(list(model.parameters()))
    assert norms[:2] == norms[2:]
    assert all(map(torch.equal, *parameters))


@pytest.mark.parametrize("make", sweep([bert, gpt2], usual=[gpt2]))
def test_a_loop_of_ones_own(huggingface, make):
    batch = batch_of(examples(8))
    found = []
    for budget in ("plain", "70%"):
        model = make("eager")
        if budget != "plain":
            switch = huggingface.enable_memory_budget(model, budget, batch, optimizer="none",
                                                      time_limit=1.0)
        torch.manual_seed(7)
        model(**batch).loss.backward()
        found.append([parameter.grad for parameter in model.parameters()])
    assert all(map(torch.equal, *found))
    assert 0 < switch.memory.measured_peak <= switch.memory.budget


def test_a_training_that_was_interrupted_is_begun_again(huggingface, tmp_path):
    """By the same callback or another one: callbacks are not told of an interrupt."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Interrupt(TrainerCallback):
        def on_step_end(self, args, state, control, **others):
            raise KeyboardInterrupt

    arguments = TrainingArguments(output_dir=tmp_path, max_steps=1, save_strategy="no",
                                  report_to=[], use_cpu=True, disable_tqdm=True)
    model, budget = gpt2("sdpa"), huggingface.MemoryBudget("90%", time_limit=0.3)
    for callbacks in ([budget, Interrupt], [budget, Interrupt],
                      [huggingface.MemoryBudget("90%", time_limit=0.3)]):
        trainer = Trainer(model, arguments, train_dataset=examples(8), callbacks=callbacks)
        if Interrupt in callbacks:
            with pytest.raises(KeyboardInterrupt):
                trainer.train()
        else:
            trainer.train()
    assert trainer.state.log_history[-1]["lowtide_peak_bytes"] > 0
    assert "forward" not in vars(model)


def test_two_budgets_of_one_training_are_refused(huggingface, tmp_path):
    two = [huggingface.MemoryBudget("90%"), huggingface.MemoryBudget("80%")]
    with pytest.raises(lowtide.InputError, match="has a memory budget already"):
        train(gpt2("sdpa"), tmp_path, two)
