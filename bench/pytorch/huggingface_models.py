"""Models of Hugging Face with random weights, and a batch for each."""

import torch
import transformers

VOCABULARY = 8000
ROWS, LENGTH = 4, 256
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=512, intermediate_size=1376, num_hidden_layers=8,
        num_attention_heads=8, num_key_value_heads=4, use_cache=False, **SPECIAL))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=512, n_layer=8, n_head=8, n_positions=LENGTH,
        use_cache=False, **SPECIAL))


def t5():
    return transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=VOCABULARY, d_model=384, d_kv=64, d_ff=1536, num_layers=6, num_heads=6,
        use_cache=False, decoder_start_token_id=0))


def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=384, num_hidden_layers=8, num_attention_heads=6,
        intermediate_size=1536, max_position_embeddings=LENGTH))


def qwen_moe():
    return transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(
        vocab_size=VOCABULARY, hidden_size=384, intermediate_size=768, moe_intermediate_size=256,
        num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=3, head_dim=64,
        num_experts=8, num_experts_per_tok=2, use_cache=False, **SPECIAL))


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536,
        image_size=224, patch_size=16, num_labels=100))


def whisper():
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
        vocab_size=VOCABULARY, d_model=384, encoder_layers=6, decoder_layers=6,
        encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=1536,
        decoder_ffn_dim=1536, num_mel_bins=80, max_source_positions=256,
        max_target_positions=LENGTH, decoder_start_token_id=1, use_cache=False, **SPECIAL))


def _text(generator):
    tokens = torch.randint(3, VOCABULARY, (ROWS, LENGTH), generator=generator)
    return {"input_ids": tokens, "labels": tokens.clone()}


def _images(generator):
    return {"pixel_values": torch.randn(2 * ROWS, 3, 224, 224, generator=generator),
            "labels": torch.randint(0, 100, (2 * ROWS,), generator=generator)}


def _sound(generator):
    return {"input_features": torch.randn(ROWS, 80, 512, generator=generator),
            "labels": torch.randint(3, VOCABULARY, (ROWS, LENGTH // 2), generator=generator)}


MODELS = {"llama": (llama, _text), "gpt2": (gpt2, _text), "t5": (t5, _text), "bert": (bert, _text),
          "qwen_moe": (qwen_moe, _text), "vit": (vit, _images), "whisper": (whisper, _sound)}


def build(name):
    """The module, in training mode, and a batch; the same each time."""
    make, batch_of = MODELS[name]
    torch.manual_seed(0)
    module = make().train()
    return module, batch_of(torch.Generator().manual_seed(1))
