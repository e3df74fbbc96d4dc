"""The keys of a configuration of DeepSpeed, and what their values may be."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping

from ... import InputError

#: At the top, those that say nothing of the memory of a step.
ELSEWHERE = frozenset({
    "aio", "autotuning", "checkpoint", "comet", "comms_logger", "compile", "compression_training",
    "csv_monitor", "curriculum_learning", "data_efficiency", "dataloader_drop_last",
    "disable_allgather", "dump_state", "eigenvalue", "elasticity", "flops_profiler",
    "fp16_master_weights_and_gradients", "gradient_predivide_factor", "graph_harvesting",
    "hybrid_engine", "load_universal_checkpoint", "memory_breakdown", "monitor_config", "nebula",
    "pipeline", "progressive_layer_drop", "quantize_training",
    "seq_parallel_communication_data_type", "sparse_attention", "sparse_gradients",
    "steps_per_print", "tensor_parallel", "tensorboard",
    "timers", "use_data_before_expert_parallelism", "wall_clock_breakdown", "wandb",
    "weight_quantization", "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer"})

#: Keys of ZeRO that say how ranks share out and exchange.
ZERO_ON_RANKS = frozenset({
    "allgather_bucket_size", "allgather_partitions", "cpu_offload_use_pin_memory",
    "elastic_checkpoint", "enable_sanity_checks", "gather_16bit_weights_on_model_save",
    "ignore_unused_parameters", "legacy_stage1", "load_from_fp32_weights",
    "log_trace_cache_warnings", "max_live_parameters", "max_reuse_distance",
    "memory_efficient_linear", "mics_hierarchical_params_gather", "mics_shard_size",
    "model_persistence_threshold", "module_granularity_threshold", "overlap_comm",
    "override_module_apply", "param_persistence_threshold", "pipeline_loading_checkpoint",
    "prefetch_bucket_size", "reduce_bucket_size", "reduce_scatter", "round_robin_gradients",
    "stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save",
    "stage3_max_live_parameters", "stage3_max_reuse_distance", "stage3_model_persistence_threshold",
    "stage3_module_granularity_threshold", "stage3_param_persistence_threshold",
    "stage3_prefetch_bucket_size", "stage3_use_all_reduce_for_fetch_params", "sub_group_size",
    "use_all_reduce_for_fetch_params", "use_multi_rank_bucket_allreduce", "zero_hpz_partition_size",
    "zero_quantized_gradients", "zero_quantized_nontrainable_weights", "zero_quantized_weights",
    "zenflow", "zeropp_loco_param"})

#: Of these, those that are numbers; the others are true or false, or sections.
_ZERO_AMOUNTS = frozenset(key for key in ZERO_ON_RANKS if key.endswith(
    ("_size", "_threshold", "_live_parameters", "_distance")))
_ZERO_SECTIONS = frozenset({"zenflow", "zeropp_loco_param"})
#: Whose default is less than 0.
_BELOW_ZERO = frozenset({"mics_shard_size"})

#: By section, the keys that it has, where another one is most likely misspelled.
_OF_SECTION = {
    "amp": frozenset({"cast_model_outputs", "cast_model_type", "enabled", "keep_batchnorm_fp32",
                      "loss_scale", "master_weights", "max_loss_scale", "min_loss_scale",
                      "num_losses", "opt_level", "patch_torch_functions", "verbosity"}),
    "fp16": frozenset({"auto_cast", "consecutive_hysteresis", "enabled",
                       "fp16_master_weights_and_grads", "hysteresis", "initial_scale_power",
                       "loss_scale", "loss_scale_window", "min_loss_scale", "opt_level"}),
    "bf16": frozenset({"bf16_master_weights_and_grads", "bf16_optimizer_states",
                       "check_grad_overflow", "enabled", "immediate_grad_update"}),
    "torch_autocast": frozenset({"dtype", "enabled", "lower_precision_safe_modules"}),
    "offload_optimizer": frozenset({
        "buffer_count", "buffer_size", "device", "fast_init", "max_in_cpu", "nvme_path",
        "pin_memory", "pipeline", "pipeline_read", "pipeline_write", "ratio",
        "super_offload", "cpuadam_cores_perc"}),
    "offload_param": frozenset({"buffer_count", "buffer_size", "device", "max_in_cpu", "nvme_path",
                                "pin_memory"}),
}
_OF_SECTION["bfloat16"] = _OF_SECTION["bf16"]

_CAST = "not used: ops are cast as torch.autocast casts them"
_MOVED = "not used: the plan chooses what moves, when, and through which buffers"
_UPDATED = "not used: gradients and optimizer state have the type of the parameters"
#: Those that are read, in all sections.
_USED = frozenset({"enabled", "dtype", "device", "nvme_path", "opt_level"})
#: By section, what the others mean here.
_OTHERS_OF_SECTION = {
    "fp16": "not used: the training loop makes torch.amp.GradScaler, with arguments alike",
    "bf16": _UPDATED, "bfloat16": _UPDATED, "torch_autocast": _CAST, "amp": _CAST,
    "offload_optimizer": _MOVED, "offload_param": _MOVED,
}


def not_known(key: str, known: Iterable[str], where: str) -> str:
    """A note on a key that DeepSpeed does not have ``where``; with the one that may be meant."""
    alike = difflib.get_close_matches(key, sorted(known), 1)
    meant = f"; did you mean {alike[0]!r}?" if alike else ""
    return f"not known: DeepSpeed has no such key {where}{meant}"


def notes_in(section: str, keys: Iterable[str]) -> Mapping[str, str]:
    """Notes on the keys of a section that it does not have, and on those that are not used."""
    known = _OF_SECTION.get(section)
    if known is None:
        return {}
    return {key: _OTHERS_OF_SECTION[section] if key in known else
            not_known(key, known, f"in {section}")
            for key in map(str, keys) if key not in known or key not in _USED}


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_amount(value: object) -> bool:
    return (isinstance(value, (int, float)) and not isinstance(value, bool)
            and 0 <= value < math.inf)


def _is_section(value: object) -> bool:
    return isinstance(value, Mapping)


#: By key, with that of its section: what a value is, and how to tell.
_VALUES: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "train_batch_size": ("a whole number, at least 1,", is_count),
    "train_micro_batch_size_per_gpu": ("a whole number, at least 1,", is_count),
    "gradient_accumulation_steps": ("a whole number, at least 1,", is_count),
    "gradient_clipping": ("a number, 0 or more,", _is_amount),
    "amp.opt_level": ("\"O0\", \"O1\", \"O2\", \"O3\"", ("O0", "O1", "O2", "O3").__contains__),
    "optimizer": ("an object with keys", _is_section),
    "scheduler": ("an object with keys", _is_section),
    "fp16.loss_scale": ("a number, 0 or more,", _is_amount),
    "fp16.min_loss_scale": ("a number, 0 or more,", _is_amount),
    "fp16.initial_scale_power": ("a number, 0 or more,", _is_amount),
    "fp16.loss_scale_window": ("a number, 0 or more,", _is_amount),
    "fp16.hysteresis": ("a number, 0 or more,", _is_amount),
}


def require_value(key: str, value: object) -> None:
    """Raises InputError for one that DeepSpeed would not take; null stands for a key that is not
    there, "auto" for what the launcher decides."""
    _require(key, value, *_VALUES.get(key, ("", lambda _: True)))


def require_zero_value(section: str, key: str, value: object) -> None:
    """The same of the keys of ZeRO that concern ranks."""
    if key in _BELOW_ZERO or key not in ZERO_ON_RANKS:
        return
    if key in _ZERO_AMOUNTS:
        _require(f"{section}.{key}", value, "a number, 0 or more,", _is_amount)
    elif key in _ZERO_SECTIONS:
        _require(f"{section}.{key}", value, "an object with keys", _is_section)
    else:
        _require(f"{section}.{key}", value, "true, false", lambda one: isinstance(one, bool))


def _require(key: str, value: object, what: str, holds: Callable[[object], bool]) -> None:
    if value is not None and value != "auto" and not holds(value):
        raise InputError(f"{key} of a configuration of DeepSpeed is {what} or \"auto\", not "
                         f"{value!r}")
