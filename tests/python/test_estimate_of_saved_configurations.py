"""Estimates by configurations that transformers saved: those that its own classes read in unusual
ways, and what a refusal names."""

import lowtide
import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers")


class DifferentLayersConfig(transformers.BertConfig):
    """As of transformers, whose configurations with layers that differ let nobody ask for what each
    of them has."""

    model_type = "bert"

    def __getattribute__(self, name):
        if name in ("head_dim", "max_sequence_length"):
            raise RuntimeError(f"'{name}' is a per-layer attribute")
        return super().__getattribute__(name)


def small(kind, **fields):
    return kind(vocab_size=60, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                num_attention_heads=2, max_position_embeddings=40, **fields)


def saved(configuration, folder):
    configuration.save_pretrained(folder)
    return folder


def estimate(subject):
    return lowtide.estimate(subject, batch=2, length=8, optimizer="none")


def test_layers_may_differ():
    configuration = small(DifferentLayersConfig, architectures=["BertForMaskedLM"])
    assert estimate(configuration).parameters == estimate(
        small(transformers.BertConfig)).parameters


@pytest.mark.skipif(not hasattr(transformers, "Gemma4UnifiedTextConfig"),
                    reason="this transformers has no configuration with layers that differ")
def test_layers_of_a_file_may_differ(tmp_path):
    configuration = small(transformers.Gemma4UnifiedTextConfig, num_key_value_heads=1, head_dim=8,
                          layer_types=["sliding_attention", "full_attention"])
    assert estimate(saved(configuration, tmp_path)).parameters == estimate(
        configuration).parameters


def test_numbers_that_json_does_not_have(tmp_path):
    """Mamba 2 has time steps up to infinity."""
    configuration = transformers.Mamba2Config(
        vocab_size=60, hidden_size=16, num_hidden_layers=1, num_heads=4, head_dim=8, state_size=8,
        n_groups=1, chunk_size=8)
    saved(configuration, tmp_path)
    assert "Infinity" in (tmp_path / "config.json").read_text()
    assert estimate(tmp_path).parameters == estimate(configuration).parameters


def test_two_parts_may_read_texts(tmp_path):
    """Musicgen has an encoder of texts and a decoder."""
    configuration = transformers.MusicgenMelodyConfig(
        text_encoder={"model_type": "t5"}, audio_encoder={"model_type": "encodec"}, decoder={})
    with pytest.raises(lowtide.InputError, match="MusicgenMelody.*name another class"):
        estimate(saved(configuration, tmp_path))


def test_a_configuration_of_a_part_is_told_its_classes(tmp_path):
    configuration = transformers.ClapTextConfig()
    with pytest.raises(lowtide.InputError) as refused:
        estimate(saved(configuration, tmp_path))
    for words in (str(tmp_path), "ClapTextConfig", "one of ClapTextModel"):
        assert words in str(refused.value)
    configuration.architectures = ["ClapTextModel"]
    assert estimate(saved(configuration, tmp_path)).name == "ClapTextModel"


def test_a_refused_batch_has_its_sizes(tmp_path):
    """Too few samples for all convolutions."""
    configuration = transformers.Wav2Vec2Config(num_hidden_layers=1)
    with pytest.raises(lowtide.InputError, match="input_values 2 x 8 "):
        estimate(saved(configuration, tmp_path))


class AsksForValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x) if x.any() else x


def test_a_step_that_asks_for_values_is_refused_with_the_line():
    with pytest.raises(lowtide.InputError, match=r"saved_configurations\.py:\d+, in forward: "
                                                 r"return self\.layer\(x\) if x\.any\(\)"):
        lowtide.estimate(AsksForValues(), (torch.ones(2, 4),))
