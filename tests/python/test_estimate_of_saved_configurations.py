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
    with pytest.raises(lowtide.InputError, match="MusicgenMelodyForConditionalGeneration does not"):
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
    with pytest.raises(lowtide.InputError,
                       match="input_values 2 x 8 .*give another length than 8, or write"):
        estimate(saved(configuration, tmp_path))


def test_the_only_class_beside_a_configuration_trains_it(tmp_path):
    configuration = small(transformers.SiglipTextConfig)
    assert estimate(saved(configuration, tmp_path)).name == "SiglipTextModel"


def test_a_class_that_cannot_be_made_is_followed_by_another():
    """The class of Llama 4 for texts is made of one of the parts of its configuration."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
             "num_attention_heads": 2}
    configuration = transformers.Llama4Config(
        text_config={**sizes, "vocab_size": 60, "num_key_value_heads": 1, "head_dim": 8,
                     "intermediate_size_mlp": 32, "num_local_experts": 1},
        vision_config={**sizes, "image_size": 28, "vision_output_dim": 16,
                       "projector_input_dim": 16, "projector_output_dim": 16})
    assert estimate(configuration).name == "Llama4ForConditionalGeneration"


@pytest.mark.parametrize("kind, sizes", [
    ("Bros", {"hidden_size": 64}), ("Vilt", {"image_size": 32, "patch_size": 8}),
    ("Udop", {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_kv": 8, "d_ff": 32}),
    ("LED", {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "attention_window": 4,
             "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32,
             "decoder_ffn_dim": 32}),
    ("MBart", {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
               "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32,
               "decoder_ffn_dim": 32}),
    ("Flaubert", {"emb_dim": 16, "n_layers": 1, "n_heads": 2}),
])
def test_models_that_need_or_ask_more_than_texts(kind, sizes):
    configuration = getattr(transformers, f"{kind}Config")(**{
        "vocab_size": 60, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 2, "max_position_embeddings": 40, **sizes})
    found = estimate(configuration)
    with torch.device("meta"):
        model = getattr(transformers, found.name)(configuration)
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())


class AsksForValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        return y * 2 if y.any() else y


def test_a_step_that_asks_for_values_is_refused_with_the_line():
    with pytest.raises(lowtide.InputError, match=r"saved_configurations\.py:\d+, in forward: "
                                                 r"return y \* 2 if y\.any\(\)"):
        lowtide.estimate(AsksForValues(), (torch.ones(2, 4),))
