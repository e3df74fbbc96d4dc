"""Configurations of DeepSpeed that say a thing twice, not at all, or not as DeepSpeed takes it."""

import tempfile

import lowtide
import pytest
import torch

CPU = {"device": "cpu"}


def zero(**settings):
    return {"zero_optimization": settings}


def notes_of(given):
    return lowtide.from_deepspeed(given).notes


@pytest.mark.parametrize("steps", [{}, {"gradient_accumulation_steps": None},
                                   {"gradient_accumulation_steps": "auto"}])
def test_micro_batches_follow_from_the_sizes_of_batches(steps):
    found = lowtide.from_deepspeed({
        "train_batch_size": 64, "train_micro_batch_size_per_gpu": 8, **steps})
    assert found.allowed.ways == ("micro_batches",)
    assert "8 times as much" in found.notes["train_micro_batch_size_per_gpu"]


@pytest.mark.parametrize("micro", [64, "auto"])
def test_no_micro_batches_follow_from_a_batch_that_is_whole(micro):
    given = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": micro}
    assert lowtide.from_deepspeed(given).allowed.ways == ()


def test_a_batch_may_be_that_of_several_ranks():
    given = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 8,
             "gradient_accumulation_steps": 1}
    assert lowtide.from_deepspeed(given).allowed.ways == ()


@pytest.mark.parametrize("given, message", [
    ({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 5,
      "gradient_accumulation_steps": 3}, "64 is not possible with 15"),
    ({"train_batch_size": 4, "train_micro_batch_size_per_gpu": 8}, "4 is not possible with 8"),
    ({"gradient_accumulation_steps": 3, "train_batch_size": 4},
     "train_batch_size is gradient_accumulation_steps . the number of ranks"),
    (zero(overlap_comm="maybe"), "zero_optimization.overlap_comm .*is true, false or"),
    (zero(reduce_bucket_size=-5), "reduce_bucket_size .*a number, 0 or more"),
    (zero(stage3_prefetch_bucket_size="big"), "stage3_prefetch_bucket_size .*a number"),
    (zero(zenflow=True), "zenflow .*an object with keys"),
    (zero(offload_optimizer={"device": "nvme"}), "offload_optimizer.nvme_path.*wants it"),
    ({"amp": {"enabled": True, "opt_level": "O9"}}, "amp.opt_level .*not 'O9'"),
])
def test_what_deepspeed_would_not_take_is_refused(given, message):
    with pytest.raises(lowtide.InputError, match=message):
        lowtide.from_deepspeed(given)


@pytest.mark.parametrize("text", ['{"bf16": {"enabled": true}, "bf16": {"enabled": false}}',
                                  '{"a": {"bf16": 1, "bf16": 2}}'])
def test_a_key_that_is_there_twice_is_refused(text, tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(text)
    with pytest.raises(lowtide.InputError, match="the key 'bf16' is there twice"):
        lowtide.from_deepspeed(path)


def test_null_stands_for_a_key_that_is_not_there():
    given = {"bf16": {"enabled": None}, "torch_autocast": {"enabled": True, "dtype": None},
             "amp": {"enabled": None, "opt_level": None}, **zero(stage=None, overlap_comm=None)}
    found = lowtide.from_deepspeed(given)
    assert found.allowed.precisions == ("bf16",) and found.allowed.shardings == ("none",)


def test_what_a_launcher_fills_in_is_taken():
    found = lowtide.from_deepspeed(zero(
        stage=3, overlap_comm=True, reduce_bucket_size="auto", stage3_prefetch_bucket_size=5e8,
        mics_shard_size=-1, stage3_gather_16bit_weights_on_model_save=True))
    assert found.allowed.shardings == ("full",)
    assert all("between ranks" in note for note in found.notes.values())


@pytest.mark.parametrize("scale, note", [
    (128, "multiply the loss by 128"), (0, "torch.amp.GradScaler, whose init_scale"),
    ("auto", "torch.amp.GradScaler, whose init_scale")])
def test_a_fixed_scale_of_the_loss_is_no_scale_that_adapts(scale, note):
    assert note in notes_of({"fp16": {"enabled": True, "loss_scale": scale}})["fp16"]


def test_amp_that_casts_nothing_is_off():
    found = lowtide.from_deepspeed({"amp": {"enabled": True, "opt_level": "O0"}})
    assert found.allowed.precisions == () and found.notes["amp"].startswith("off")


@pytest.mark.parametrize("given, key", [
    ({"fp16": {"enabled": True, "hysteresis": 2}}, "fp16.hysteresis"),
    ({"bf16": {"enabled": True, "bf16_optimizer_states": True}}, "bf16.bf16_optimizer_states"),
    (zero(stage=3, offload_optimizer={**CPU, "ratio": 0.3}),
     "zero_optimization.offload_optimizer.ratio"),
    ({"amp": {"enabled": True, "verbosity": 1}}, "amp.verbosity"),
])
def test_a_key_of_a_section_that_is_not_used_says_so(given, key):
    assert notes_of(given)[key].startswith("not used: ")


@pytest.mark.parametrize("given, key, meant", [
    ({"amp": {"enabled": True, "opt_lvl": "O1"}}, "amp.opt_lvl", "opt_level"),
    ({"activation_checkpointing": {"cpu_checkpoint": True}},
     "activation_checkpointing.cpu_checkpoint", "cpu_checkpointing"),
])
def test_a_misspelled_key_of_any_section_is_suspected(given, key, meant):
    assert f"did you mean '{meant}'?" in notes_of(given)[key]


def test_all_moves_go_to_one_place_which_is_said(tmp_path):
    folder = {"device": "nvme", "nvme_path": str(tmp_path)}
    given = zero(stage=3, offload_param=folder, offload_optimizer=CPU)
    found = lowtide.from_deepspeed(given)
    assert found.allowed.offload.folder == str(tmp_path) != tempfile.gettempdir()
    assert f"one place, '{tmp_path}'" in found.notes["zero_optimization.offload_optimizer"]
    assert "one place" not in found.notes["zero_optimization.offload_param"]


def test_on_a_device_the_hosts_memory_and_a_folder_are_two_places(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = lowtide.from_deepspeed({"zero_optimization": {
        "stage": 3, "offload_optimizer": {"device": "cpu"},
        "offload_param": {"device": "nvme", "nvme_path": str(tmp_path)}}})
    assert found.allowed.offload == lowtide.Offload("host", disk=str(tmp_path),
                                                    optimizer_state=True, parameters=True)
    for key in ("offload_optimizer", "offload_param"):
        assert f"the host's memory and '{tmp_path}'" in found.notes[f"zero_optimization.{key}"]


@pytest.mark.parametrize("stage, name, note", [
    (0, "offload_optimizer", "from stage 1 on"), (1, "offload_optimizer", ""),
    (2, "offload_param", "from stage 3 on"), (3, "offload_param", ""),
    ("auto", "offload_param", "")])
def test_a_move_that_deepspeed_leaves_out_at_a_stage_is_noted(stage, name, note):
    text = notes_of(zero(**{name: CPU}, stage=stage))[f"zero_optimization.{name}"]
    assert note in text and ("DeepSpeed does so" in text) == bool(note)


def test_on_ranks_the_notes_say_that_nothing_moves():
    given = {**zero(stage=3, offload_optimizer=CPU),
             "activation_checkpointing": {"cpu_checkpointing": True}}
    found = lowtide.from_deepspeed(given).on_ranks()
    assert found.allowed.offload is None and found.allowed.shardings == ("full",)
    for key in ("zero_optimization.offload_optimizer",
                "activation_checkpointing.cpu_checkpointing"):
        assert found.notes[key].startswith("not done: nothing moves")


def beside(given, **options):
    return lowtide.from_deepspeed(given).beside(options)


BF16, FP16 = {"bf16": {"enabled": True}}, {"fp16": {"enabled": True}}


@pytest.mark.parametrize("given, options", [
    ({}, {"precisions": ("bf16", "fp16")}), ({}, {"precisions": ()}),
    (BF16, {"precisions": ["bf16"]}), ({"bf16": {"enabled": None}}, {"precisions": ("bf16",)}),
    ({"bf16": {"enabled": "auto"}}, {"precisions": ()}),
    ({"bf16": {"enabled": "auto"}}, {"precisions": ("fp16",)}),
    ({"fp16": {"enabled": False}}, {"precisions": ("bf16",)}),
    ({**BF16, "torch_autocast": {"enabled": False}}, {"precisions": ("bf16",)}),
    (BF16, {"stashes": ("int8",)}), (BF16, {"ways": ("slices", "micro_batches")}),
    ({"gradient_accumulation_steps": 4}, {"ways": ("slices", "micro_batches")}),
    ({"gradient_accumulation_steps": "auto"}, {"ways": ("slices",)}),
    ({"gradient_accumulation_steps": 1}, {"ways": ("slices",)}),
    (zero(stage="auto"), {"shardings": ("full",)}), (zero(stage=None), {"shardings": ("full",)}),
    (zero(stage=3), {"shardings": ("full",)}),
    (zero(offload_param={"device": "none"}), {"offload": lowtide.Offload(tempfile.gettempdir())}),
])
def test_options_count_for_what_a_configuration_says_nothing_of(given, options):
    (name, value), = options.items()
    plain, found = lowtide.from_deepspeed(given).allowed, beside(given, **options).allowed
    expected = value if name == "offload" else tuple(value)
    for field in ("precisions", "ways", "stashes", "offload", "shardings"):
        assert getattr(found, field) == (expected if field == name else getattr(plain, field))


@pytest.mark.parametrize("given, options, message", [
    (BF16, {"precisions": ("fp16",)}, "^bf16 of the configuration asks for 'bf16', .*leaves out"),
    (BF16, {"precisions": ()}, "^bf16 .*leaves out"),
    (FP16, {"precisions": ("fp16", "bf16")}, "^fp16 .*alone.* allows 'bf16' too"),
    ({"fp16": {"enabled": False}}, {"precisions": ("fp16",)}, "^fp16 .*excludes 'fp16'"),
    ({"gradient_accumulation_steps": 4}, {"ways": ("slices",)},
     "^gradient_accumulation_steps .*asks for 'micro_batches'"),
    ({"gradient_accumulation_steps": 1}, {"ways": ("slices", "micro_batches")},
     "^gradient_accumulation_steps .*excludes 'micro_batches'"),
    ({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2}, {"ways": ()},
     "^train_micro_batch_size_per_gpu .*asks for"),
    (zero(stage=2), {"shardings": ("full",)}, "^zero_optimization.stage .*asks for 'gradients'"),
    (zero(stage=0), {"shardings": ("none", "full")}, "stage .*'none' alone"),
    (zero(stage=3, offload_param=CPU), {"offload": lowtide.Offload(tempfile.gettempdir())},
     "^offload and zero_optimization.offload_param of the configuration both say"),
    (BF16, {"stashes": "int8"}, "stashes must be a tuple"),
    (BF16, {"stashes": ("int3",)}, "int3"),
])
def test_an_option_that_contradicts_a_configuration_is_refused(given, options, message):
    with pytest.raises(lowtide.InputError, match=message):
        beside(given, **options)


def test_the_moves_of_a_configuration_may_be_said_twice():
    given = zero(stage=3, offload_param=CPU)
    moves = lowtide.from_deepspeed(given).allowed.offload
    assert beside(given, offload=moves).allowed.offload == moves


def test_a_note_says_that_an_option_decides_what_is_left_open():
    given = {"bf16": {"enabled": "auto"}, **zero(stage="auto")}
    notes = beside(given, precisions=()).notes
    assert notes["bf16"] == "\"auto\": precisions of the call decides"
    assert notes["zero_optimization.stage"] == notes_of(given)["zero_optimization.stage"]


def test_tune_takes_options_beside_a_configuration(tmp_path):
    model, inputs = make_step(8)
    settings = {"goal": "fits", "time_limit": 0.2, "verbose": False, "ways": ()}
    found = lowtide.tune(model, inputs, "1GiB", deepspeed={}, precisions=("bf16",),
                         stashes=("int8",), **settings)
    tried = {(one.combination.precision, one.combination.stash) for one in found.ranked}
    assert tried <= {(p, s) for p in (None, "bf16") for s in ("exact", "int8")} and len(tried) > 1
    with pytest.raises(lowtide.InputError, match="bf16 of the configuration asks for 'bf16'"):
        lowtide.tune(model, inputs, "1GiB", deepspeed=BF16, precisions=("fp16",), **settings)


def make_step(size):
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU()), torch.randn(size, 16)


class StoppedSteps:
    """Ctrl-C is pressed at the fourth size."""

    def __init__(self):
        self.sizes = []

    def __call__(self, size):
        self.sizes.append(size)
        if len(self.sizes) == 4:
            raise KeyboardInterrupt
        return make_step(size)


def test_stopping_the_search_for_a_size_ends_the_ranking():
    steps = StoppedSteps()
    found = lowtide.tune(steps, None, "64KiB", goal="batch", precisions=("bf16",),
                         ways=("slices",), time_limit=0.2, verbose=False)
    (only,) = found.ranked
    assert only.is_stopped and "larger ones may fit" in only.reason
    assert only.size == found.best.size == max(steps.sizes[:3])


def test_a_largest_batch_says_that_its_search_was_stopped():
    settings = {"time_limit": 0.2, "verbose": False}
    assert lowtide.max_batch(StoppedSteps(), "64KiB", **settings).is_stopped
    assert not lowtide.max_batch(make_step, "64KiB", limit=2, **settings).is_stopped
