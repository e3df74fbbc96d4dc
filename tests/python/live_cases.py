"""A training that the tests of live pages watch."""

import json
import urllib.request

import lowtide
import torch


class Training:
    """``model``: wrapped; ``steps``: runs so many of its training, and gives their losses."""

    def __init__(self, budget="80%"):
        torch.manual_seed(0)
        net = torch.nn.Sequential(*(
            torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU()) for _ in range(4)))
        self._inputs = torch.randn(128, 32)
        self._optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        self.model = lowtide.wrap(net, self._inputs, budget=budget, optimizer=self._optimizer,
                                  time_limit=0.3, cache=False)

    def steps(self, number, live=None):
        return [self._step(live) for _ in range(number)]

    def _step(self, live):
        self._optimizer.zero_grad()
        loss = self.model(self._inputs).square().mean()
        loss.backward()
        self._optimizer.step()
        if live is not None:
            live.step(loss=loss.item())
        return loss.item()


def state_of(live):
    with urllib.request.urlopen(f"{live.url}state", timeout=30) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        return json.loads(answer.read())
