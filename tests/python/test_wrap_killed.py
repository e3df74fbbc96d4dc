"""Processes that share a cache, some of which are killed while they measure and plan."""

import json
import os
import random
import subprocess
import sys
import time

import pytest
from sweep import sweep

#: Prints the losses. The cache is where the environment says.
PROGRAM = """
import json
import lowtide
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x = torch.randn(256, 64)
wrapped = lowtide.wrap(model, x, budget="80%", optimizer=optimizer, time_limit=1)
losses = []
for _ in range(3):
    loss = wrapped(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
print(json.dumps(losses))
"""


def started(cache):
    return subprocess.Popen([sys.executable, "-c", PROGRAM], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE,
                            env={**os.environ, "XDG_CACHE_HOME": str(cache)})


def losses(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


def require_whole(cache):
    found = [*cache.rglob("*.json"), *cache.rglob("searches")]
    for path in found:
        json.loads(path.read_text())
    return found


@pytest.mark.cpu_only("the processes train on the CPU")
@pytest.mark.parametrize("seed", sweep(range(8), usual=[0]))
def test_files_of_the_cache_are_whole_and_serve_the_next_one(seed, tmp_path):
    draw = random.Random(seed)
    victims = [started(tmp_path) for _ in range(3)]
    for process in victims:
        time.sleep(draw.uniform(0.0, 4.0))
        process.kill()
        process.communicate(timeout=60)
    require_whole(tmp_path)
    two = [started(tmp_path) for _ in range(2)]
    first, second = map(losses, two)
    assert first == second
    assert require_whole(tmp_path)
    assert losses(started(tmp_path)) == first
