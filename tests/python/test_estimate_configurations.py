"""Estimates by a configuration of transformers alone: which class, which batch, which refusal."""

import gc
import json

import lowtide
import pytest
import torch
from lowtide import _runtime
from lowtide.__main__ import main
from lowtide.pytorch.estimate.configuration import model_of
from lowtide.pytorch.estimate.example_batch import batches_for
from sweep import sweep

transformers = pytest.importorskip("transformers")

TEXT = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 32, "max_position_embeddings": 40}
DECODER = {"vocab_size": 60, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
           "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32,
           "decoder_ffn_dim": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
           "decoder_start_token_id": 2}
SOUND = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 32, "vocab_size": 20, "conv_dim": (8, 8),
         "conv_stride": (5, 4), "conv_kernel": (10, 4),
         "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
         "num_conv_pos_embedding_groups": 2}
IMAGE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 32, "image_size": 32, "patch_size": 8}

#: By kind of configuration: small sizes, the class that trains it, and what a batch has.
FAMILIES = {
    "Bert": (TEXT, "BertForMaskedLM", {"input_ids", "labels"}),
    "GPT2": ({"vocab_size": 60, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 40},
             "GPT2LMHeadModel", {"input_ids", "labels"}),
    "Bart": ({**DECODER, "max_position_embeddings": 40}, "BartForConditionalGeneration",
             {"input_ids", "labels"}),
    "T5": ({"vocab_size": 60, "d_model": 16, "num_layers": 1, "num_heads": 2, "d_kv": 8,
            "d_ff": 32}, "T5ForConditionalGeneration", {"input_ids", "labels"}),
    "Whisper": ({**DECODER, "num_mel_bins": 8, "max_source_positions": 20,
                 "max_target_positions": 12}, "WhisperForConditionalGeneration",
                {"input_features", "labels"}),
    "Speech2Text": ({**DECODER, "input_feat_per_channel": 8, "conv_channels": 16,
                     "max_target_positions": 12}, "Speech2TextForConditionalGeneration",
                    {"input_features", "labels"}),
    "Wav2Vec2": (SOUND, "Wav2Vec2ForCTC", {"input_values"}),
    "Hubert": (SOUND, "HubertForCTC", {"input_values"}),
    "AST": ({**IMAGE, "max_length": 32, "num_mel_bins": 16}, "ASTForAudioClassification",
            {"input_values", "labels"}),
    "ViT": (IMAGE, "ViTForImageClassification", {"pixel_values", "labels"}),
    "ResNet": ({"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1],
                "layer_type": "basic"}, "ResNetForImageClassification",
               {"pixel_values", "labels"}),
    "CLIP": ({"text_config": TEXT, "vision_config": IMAGE, "projection_dim": 8}, "CLIPModel",
             {"input_ids", "pixel_values", "return_loss"}),
}
USUAL = ("Bert", "Whisper", "Wav2Vec2", "CLIP")
#: Their decoders leave out a mask that masks nothing, which an estimate has no values to see.
MASKS = ("Bart",)
#: Samples of a sound; other lengths are those of the configuration.
SAMPLES = 4000


def configuration_of(name):
    sizes, *_ = FAMILIES[name]
    return getattr(transformers, f"{name}Config")(**sizes)


def length_of(name):
    return SAMPLES if FAMILIES[name][0] is SOUND else None


def measured(name):
    """The peak of the second step of a model with memory, by the batch that an estimate makes."""
    gc.collect()
    base = _runtime.taken_bytes()
    torch.manual_seed(0)
    configuration = model_of(configuration_of(name)).config
    model = type(model_of(configuration))._from_config(configuration).train()
    batch = {key: torch.zeros(value.shape, dtype=value.dtype)
             if isinstance(value, torch.Tensor) else value
             for key, value in next(batches_for(model, 2, length_of(name))).inputs.items()}
    if name in MASKS:
        batch["decoder_attention_mask"] = torch.ones_like(batch["labels"])
        batch["decoder_attention_mask"][:, -1] = 0
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        _runtime.reset_peaks()
        output = model(**batch)
        result = output.logits if output.loss is None else output.loss
        del output
        result.backward(torch.ones_like(result))
        del result
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return _runtime.taken_peak_bytes() - base


@pytest.mark.cpu_only("steps are measured by the CPU's allocator")
@pytest.mark.parametrize("name", sweep(FAMILIES, usual=USUAL))
def test_a_configuration_without_a_class_is_what_trains_it(name):
    _, kind, inputs = FAMILIES[name]
    found = lowtide.estimate(configuration_of(name), batch=2, length=length_of(name),
                             optimizer="adamw", measure=True)
    assert found.name == kind
    assert set(next(batches_for(model_of(configuration_of(name)), 2, None)).inputs) == inputs
    assert found.peak_bytes == pytest.approx(measured(name), rel=0.02)


def test_frames_of_videos_are_images_to_a_model_that_reads_images():
    configuration = transformers.XCLIPVisionConfig(**IMAGE, num_frames=3, mit_hidden_size=16)
    inputs = next(batches_for(model_of(configuration), 2, None)).inputs
    assert inputs["pixel_values"].shape == (6, 3, 32, 32)
    assert lowtide.estimate(configuration, batch=2, optimizer="none").peak_bytes > 0


def test_the_users_configuration_stays_as_it_is():
    configuration = configuration_of("Bart")
    configuration.encoder_layerdrop = 0.5
    before = configuration.to_dict()
    lowtide.estimate(configuration, batch=2, length=8, optimizer="none")
    assert configuration.to_dict() == before


def test_what_a_loss_depends_on_is_said():
    found = lowtide.estimate(configuration_of("Wav2Vec2"), optimizer="none", length=SAMPLES)
    assert "loss of Wav2Vec2ForCTC is not counted" in str(found)
    longer = lowtide.estimate(configuration_of("Wav2Vec2"), optimizer="none", length=2 * SAMPLES)
    assert longer.whole["batch"] == 2 * found.whole["batch"] == 2 * SAMPLES * 4


@pytest.mark.parametrize("kind, options, labels", [
    ("BertForSequenceClassification", {"num_labels": 3}, ((2,), torch.int64)),
    ("BertForSequenceClassification", {"num_labels": 1}, ((2,), torch.float32)),
    ("BertForSequenceClassification",
     {"num_labels": 3, "problem_type": "multi_label_classification"}, ((2, 3), torch.float32)),
    ("BertForTokenClassification", {}, ((2, 40), torch.int64)),
    ("BertForMultipleChoice", {}, ((2,), torch.int64)),
    ("BertForQuestionAnswering", {}, None),
    ("BertModel", {}, None),
])
def test_labels_are_those_of_the_class(kind, options, labels):
    configuration = transformers.BertConfig(**TEXT, **options, architectures=[kind])
    inputs = next(batches_for(model_of(configuration), 2, None)).inputs
    found = inputs.get("labels")
    assert (found if found is None else (tuple(found.shape), found.dtype)) == labels
    assert lowtide.estimate(configuration, batch=2, optimizer="none").name == kind


@pytest.mark.parametrize("kind, field, number", [
    ("Bert", "num_hidden_layers", 0), ("Bert", "num_hidden_layers", -1),
    ("Bert", "num_attention_heads", 0), ("Bert", "vocab_size", 0), ("Bert", "hidden_size", -16),
    ("Bert", "type_vocab_size", -1), ("Bert", "num_hidden_layers", 10**9),
    ("GPT2", "n_layer", 0), ("GPT2", "n_positions", -1), ("T5", "num_layers", 0),
    ("Whisper", "decoder_layers", -2), ("CLIP", "vision_config.num_hidden_layers", 0),
])
def test_numbers_that_no_model_has_are_refused(kind, field, number, tmp_path):
    sizes, *_ = FAMILIES[kind]
    part, _, name = field.rpartition(".")
    changed = {**sizes, part: {**sizes[part], name: number}} if part else {**sizes, name: number}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind.lower(), **changed}))
    with pytest.raises(lowtide.InputError) as refused:
        lowtide.estimate(path, optimizer="none")
    for words in (str(path), f"{field} is {number}", "write"):
        assert words in str(refused.value)


def test_an_object_with_no_layers_is_refused():
    configuration = configuration_of("Bert")
    configuration.num_hidden_layers = 0
    with pytest.raises(lowtide.InputError, match="num_hidden_layers is 0.*usually has 12"):
        lowtide.estimate(configuration, optimizer="none")


def test_what_may_be_none_of_may_be_zero():
    """No kinds of tokens in DeBERTa, as in its own configurations."""
    found = lowtide.estimate(transformers.DebertaV2Config(**TEXT, type_vocab_size=0),
                             optimizer="none")
    assert found.name == "DebertaV2ForMaskedLM"


@pytest.mark.parametrize("named", ["BertConfig", "pipeline", "no_such_class"])
def test_what_is_no_model_is_no_class_of_it(named):
    configuration = transformers.BertConfig(**TEXT, architectures=[named])
    assert lowtide.estimate(configuration, optimizer="none").name == "BertForMaskedLM"


def test_a_quantized_configuration_has_a_note():
    configuration = configuration_of("Bert")
    configuration.quantization_config = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    assert "without the quantization_config" in str(lowtide.estimate(configuration))


def test_the_advice_of_a_refusal_works(tmp_path, monkeypatch, capsys):
    configuration = transformers.TimeSeriesTransformerConfig(prediction_length=4)
    configuration.save_pretrained(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["estimate", "config.json"]) == 2
    error = capsys.readouterr().err
    assert "my_module:make" in error and "past_values" in error
    (tmp_path / "advised_module.py").write_text(
        "import torch, transformers\n"
        "def make():\n"
        "    config = transformers.BertConfig(hidden_size=16, num_attention_heads=2,\n"
        "                                     num_hidden_layers=1, intermediate_size=32)\n"
        "    with torch.device('meta'):\n"
        "        return transformers.BertModel(config).train(), {\n"
        "            'input_ids': torch.zeros(2, 8, dtype=torch.int64)}\n")
    assert main(["estimate", "advised_module:make"]) == 0


def test_a_batch_too_small_to_be_normalized_is_said():
    configuration = transformers.LevitConfig(
        image_size=64, patch_size=16, hidden_sizes=[16, 16, 16], num_attention_heads=[1, 1, 1],
        depths=[1, 1, 1], key_dim=[8, 8, 8])
    with pytest.raises(lowtide.InputError, match="per channel.*: give a larger batch, or "):
        lowtide.estimate(configuration, optimizer="none")
    assert lowtide.estimate(configuration, batch=2, optimizer="none").peak_bytes > 0


def test_a_class_that_transformers_lists_and_does_not_have_is_none(monkeypatch):
    mapping = transformers.AutoModelForMaskedLM._model_mapping
    monkeypatch.setitem(mapping._model_mapping, "bert", "BertForNothing")
    assert type(model_of(transformers.BertConfig(**TEXT))) is transformers.BertLMHeadModel
