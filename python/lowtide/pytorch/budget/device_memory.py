"""What the device has, against what a plan takes."""

from __future__ import annotations

from ... import InfeasibleError, _runtime, format_bytes


def require_device_memory(needed_bytes: int, device: str, budget: object) -> None:
    """Raises InfeasibleError when a plan takes more than the device has free. That a budget is
    larger than the device is no fault: it is an upper limit, and the plan may need less."""
    free, total = _runtime.device_memory(device)
    if needed_bytes <= free:
        return
    taken = _runtime.taken_bytes(device)
    others = max(0, total - free - taken)
    raise InfeasibleError(
        f"the plan within the budget of {budget} takes {format_bytes(needed_bytes)} beside what is "
        f"there, and the device {device} has {format_bytes(free)} free of {format_bytes(total)}: "
        f"this program's tensors hold {format_bytes(taken)}, and what lies outside of them "
        f"{format_bytes(others)}. Free {format_bytes(needed_bytes - free)} there, or give a budget "
        f"that is smaller by as much.")
