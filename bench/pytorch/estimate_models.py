"""Models to estimate and to measure: of the zoo, of timm, of transformers, each at two sizes.

`CASES` holds by name a function of the size, 0 or 1, that gives a module and its inputs; called
with them the module returns its loss, or what has it as `loss`.
"""

import functools

import timm
import torch
import transformers

import models

VOCABULARY = 2000


def _built(name, **sizes):
    return models.WithLoss(models.torch_models.build(name, **sizes))


def _zoo_images(name, image, size, **sizes):
    images = torch.randn(2 + 4 * size, 3, image, image)
    return _built(name, **sizes), (images, torch.randint(0, 10, (len(images),)))


def _zoo_maps(name, size):
    images = torch.randn(1 + size, 3, 64 + 32 * size, 64 + 32 * size)
    return _built(name), (images, torch.randint(0, 4, (len(images), *images.shape[2:])))


def _zoo_tokens(name, size, **sizes):
    tokens = torch.randint(0, 256, (2 + 2 * size, 64 + 64 * size))
    return _built(name, vocabulary=256, **sizes), (tokens, tokens)


def _gpt(size):
    return _zoo_tokens("gpt", size, layers=3, width=192, sequence=64 + 64 * size, dropout=0.1)


def _timm(name, image, size, **options):
    images = torch.randn(2 + 4 * size, 3, image, image)
    return (models.WithLoss(timm.create_model(name, num_classes=100, **options)),
            (images, torch.randint(0, 100, (len(images),))))


_SMALL = {"vocab_size": VOCABULARY, "hidden_size": 192, "num_hidden_layers": 3,
          "num_attention_heads": 4, "intermediate_size": 512}
_DECODER = _SMALL | {"num_key_value_heads": 2, "use_cache": False, "bos_token_id": 1,
                     "eos_token_id": 2, "pad_token_id": 0}
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 192, "n_layer": 3, "n_head": 4, "n_positions": 256,
         "use_cache": False, "bos_token_id": 1, "eos_token_id": 2}
_T5 = {"vocab_size": VOCABULARY, "d_model": 192, "d_kv": 48, "d_ff": 512, "num_layers": 2,
       "num_heads": 4, "use_cache": False, "decoder_start_token_id": 0}

#: By name: the class of the model, and the options of its configuration.
_TEXTS = {
    "llama": ("LlamaForCausalLM", _DECODER),
    "mistral": ("MistralForCausalLM", _DECODER),
    "qwen2": ("Qwen2ForCausalLM", _DECODER),
    "gpt2": ("GPT2LMHeadModel", _GPT2),
    "gpt_neox": ("GPTNeoXForCausalLM", _SMALL | {"use_cache": False}),
    "bert": ("BertForMaskedLM", _SMALL),
    "roberta": ("RobertaForMaskedLM", _SMALL),
    "distilbert": ("DistilBertForMaskedLM", {"vocab_size": VOCABULARY, "dim": 192, "n_layers": 3,
                                             "n_heads": 4, "hidden_dim": 512}),
    "albert": ("AlbertForMaskedLM", _SMALL | {"embedding_size": 64}),
    "t5": ("T5ForConditionalGeneration", _T5),
}


def _text(name, size):
    kind, options = _TEXTS[name]
    cls = getattr(transformers, kind)
    tokens = torch.randint(3, VOCABULARY, (2 + 2 * size, 64 + 64 * size))
    return cls(cls.config_class(**options)), {"input_ids": tokens, "labels": tokens.clone()}


_ZOO_IMAGES = {"resnet18": 64, "resnet50": 64, "mobilenet": 64, "mobilenetv2": 64,
               "densenet121": 64, "vit-small": 224}
_TIMM = {
    "efficientnet_b0": (64, {}), "mobilenetv3_small_100": (96, {}), "regnetx_002": (96, {}),
    "convnext_atto": (64, {}), "ghostnet_100": (64, {}), "resnext50_32x4d": (64, {}),
    "vit_tiny_patch16_224": (224, {}), "deit_tiny_patch16_224": (224, {}),
    "mixer_s32_224": (224, {}), "levit_128s": (224, {}),
}

CASES = {
    **{f"zoo/{name}": functools.partial(_zoo_images, name, image)
       for name, image in _ZOO_IMAGES.items()},
    "zoo/vgg16": functools.partial(_zoo_images, "vgg16", 224, width=256),
    "zoo/unet": functools.partial(_zoo_maps, "unet"),
    "zoo/gpt": _gpt,
    "zoo/lstm": functools.partial(_zoo_tokens, "lstm", width=128),
    **{f"timm/{name}": functools.partial(_timm, name, image, **options)
       for name, (image, options) in _TIMM.items()},
    **{f"transformers/{name}": functools.partial(_text, name) for name in _TEXTS},
}


def build(name, size):
    """The same module and batch each time, the module in training mode."""
    torch.manual_seed(0)
    module, inputs = CASES[name](size)
    return module.train(), inputs
