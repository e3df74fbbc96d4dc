"""Hugging Face models whose heads share keys, with the masks that eager PyTorch would choose."""

import copy
import importlib

import lowtide
import pytest
import torch
from lowtide.pytorch.dynamo import transformers_masks
from lowtide.pytorch.wrap import session_of

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

WORDS, LENGTH = 300, 256


def model_of(name):
    torch.manual_seed(0)
    config = {"llama": transformers.LlamaConfig, "mistral": transformers.MistralConfig,
              "qwen2": transformers.Qwen2Config}[name]
    return transformers.AutoModelForCausalLM.from_config(config(
        vocab_size=WORDS, hidden_size=256, intermediate_size=512, num_hidden_layers=1,
        num_attention_heads=8, num_key_value_heads=4, use_cache=False))


def batch_of(rows, mask=None, **more):
    tokens = torch.randint(3, WORDS, (rows, LENGTH))
    batch = {"input_ids": tokens, "labels": tokens.clone(), **more}
    if mask is not None:
        batch["attention_mask"] = torch.ones(rows, LENGTH, dtype=torch.long)
        batch["attention_mask"][0, :mask] = 0
    return batch


def packed():
    return torch.cat([torch.arange(100), torch.arange(LENGTH - 100)])[None]


BATCHES = {"no mask": lambda: batch_of(2), "one row": lambda: batch_of(1),
           "nothing masked": lambda: batch_of(2, 0), "padded": lambda: batch_of(2, 40),
           "packed": lambda: batch_of(1, position_ids=packed())}


def gradients(model, batch):
    model.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters())]


@pytest.mark.parametrize("name, budget, batches", [
    pytest.param("llama", "80%", BATCHES, marks=pytest.mark.sweep),
    ("llama", "80%", ["nothing masked", "padded"]), ("mistral", None, ["no mask"]),
    ("qwen2", None, ["nothing masked"])])
def test_gradients_are_eager_ones_to_the_bit(name, budget, batches):
    plain = model_of(name)
    wrapped = lowtide.wrap(copy.deepcopy(plain), budget=budget, optimizer="none", time_limit=0.3)
    for batch in batches:
        inputs = BATCHES[batch]()
        got, expected = gradients(wrapped, inputs), gradients(plain, inputs)
        assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True)), batch


def test_masks_of_one_kind_share_a_plan():
    wrapped = lowtide.wrap(model_of("llama"), budget=None, time_limit=0.3)
    for _ in range(2):
        for batch in ("nothing masked", "padded"):
            gradients(wrapped, BATCHES[batch]())
    assert len(session_of(wrapped).regions) == 2


def test_without_a_padding_mask_a_trace_answers_as_a_call(monkeypatch):
    """Transformers 5.17 and before asks whether there is a trace, and keeps all masks in it."""
    importlib.import_module("transformers.masking_utils")
    replaced = {name: function for name, _, function in transformers_masks._replacements()}
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert replaced["is_tracing"](None)
    with transformers_masks.known_masks(lambda input_ids: None, (torch.zeros(1, 2),), {}):
        assert not replaced["is_tracing"](None)
        assert replaced["is_tracing"](torch.zeros(1))
