"""What a check found, for people and for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

#: ``FAULT``: models cannot be trained as it is; ``WARNING``: they can, with a loss; ``ABSENT``:
#: something that only some uses need.
OK, WARNING, FAULT, ABSENT = "ok", "warning", "fault", "absent"


@dataclasses.dataclass(frozen=True)
class Finding:
    """``name``: of what was looked at; ``advice``: what to do, "" where nothing is to be done."""

    name: str
    status: str
    text: str
    advice: str = ""


def report_text(findings: Sequence[Finding]) -> str:
    width = max(len(found.name) for found in findings)
    lines = []
    for found in findings:
        lines.append(f"{found.status:<7}  {found.name:<{width}}  {found.text}")
        if found.advice:
            lines.append(f"{'':<{7 + 2 + width + 2}}{found.advice}")
    return "\n".join(lines)


def to_json(findings: Sequence[Finding]) -> str:
    """One JSON document."""
    return json.dumps({"ok": all(found.status != FAULT for found in findings),
                       "checks": [dataclasses.asdict(found) for found in findings]}, indent=2)
