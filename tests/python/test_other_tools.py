"""PEFT, averaged weights, data parallel training and Lightning, before and after wrapping."""

import copy

import lowtide
import pytest
import torch
import torch.distributed as dist
from lowtide.pytorch.wrap import session_of
from on_device import seeded
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from wrap_cases import same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

STEPS = 3


def wrapped(model, *inputs, budget="80%"):
    return lowtide.wrap(model, inputs, budget=budget, optimizer="SGD", time_limit=0.3)


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.GELU(), nn.Dropout(0.2),
                         nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 16))


def rows():
    return torch.randn(48, 16, generator=seeded(3))


def trained(model, x=None, after_step=lambda: None):
    """Losses, then parameters and buffers, after some steps of the usual loop."""
    x = rows() if x is None else x
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    torch.manual_seed(5)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        after_step()
        losses.append(loss.detach())
    return [*losses, *model.state_dict().values()]


def is_planned(model):
    return 0 < lowtide.memory(model).measured_peak <= lowtide.memory(model).budget


# ---- PEFT

class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = layers(), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.body(x))


def with_adapters(model, **options):
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    return peft.get_peft_model(model, peft.LoraConfig(
        r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["0", "4", "6"],
        modules_to_save=["head"], **options))


@pytest.mark.parametrize("when", ["before", "after"])
def test_adapters_of_peft(when):
    plain = trained(with_adapters(Blocks()))
    if when == "before":
        model = planned = wrapped(with_adapters(Blocks()), rows())
    else:
        planned = wrapped(Blocks(), rows())
        model = with_adapters(planned)
    assert same(trained(model), plain)
    assert is_planned(planned)


def test_adapters_that_read_the_weight_itself_break_no_graph():
    """Those of DoRA, of which PEFT asks whether it is quantized."""
    model = wrapped(with_adapters(Blocks(), use_dora=True), rows())
    assert same(trained(model), trained(with_adapters(Blocks(), use_dora=True)))
    assert len(session_of(model).regions) == 1


def test_an_adapter_that_is_disabled_or_merged():
    plain = with_adapters(Blocks())
    model = wrapped(with_adapters(Blocks()), rows())
    for each in (plain, model):
        trained(each)
        each.eval()
    with plain.disable_adapter(), model.disable_adapter():
        assert same([model(rows())], [plain(rows())])
    assert same([model(rows())], [plain(rows())])
    assert same([model.merge_and_unload()(rows())], [plain.merge_and_unload()(rows())])


# ---- Averages

@pytest.mark.parametrize("when", ["before", "after"])
def test_averaged_weights(when):
    def averaged(model, average):
        values = trained(model, after_step=lambda: average.update_parameters(model))
        update_bn([rows()], average)
        return [*values, *average.state_dict().values(), average.eval()(rows())]

    def average_of(model):
        return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))

    plain = layers()
    expected = averaged(plain, average_of(plain))
    model = layers()
    if when == "before":
        average = average_of(model)
        planned = wrapped(model, rows())
    else:
        planned = wrapped(model, rows())
        average = average_of(planned)
    assert same(averaged(planned, average), expected)
    assert is_planned(planned)
    assert not hasattr(type(average.module), "_lowtide_session")


# ---- Data parallel

@pytest.fixture
def one_rank(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0,
                            world_size=1)
    yield
    dist.destroy_process_group()


of_gloo = pytest.mark.cpu_only("gloo communicates no tensors of this device")


@of_gloo
@pytest.mark.parametrize("unused", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
def test_data_parallel(one_rank, when, unused):
    def parallel(model):
        return DistributedDataParallel(model, find_unused_parameters=unused)

    plain = trained(parallel(layers()))
    if when == "before":
        model = planned = wrapped(parallel(layers()), rows())
    else:
        planned = wrapped(layers(), rows())
        model = parallel(planned)
    assert same(trained(model), plain)
    assert lowtide.memory(planned).measured_peak > 0


@of_gloo
def test_data_parallel_computes_in_the_precision_of_wrap(one_rank):
    planned = lowtide.wrap(DistributedDataParallel(layers()), rows(), precision="bf16")
    plain = layers()
    with torch.autocast("cpu", torch.bfloat16), torch.random.fork_rng():
        expected = plain(rows())
    assert torch.equal(planned(rows()), expected)


@of_gloo
def test_sharded_parameters_are_planned_where_all_are(one_rank):
    mesh = init_device_mesh("cpu", (1,))
    model, plain = layers(), trained(layers())
    fully_shard(model, mesh=mesh)
    found = trained(wrapped(model, rows()))
    assert same([getattr(one, "_local_tensor", one) for one in found], plain)
    model = layers()
    fully_shard(model[0], mesh=mesh)
    with pytest.raises(lowtide.InputError, match="does not lie in rows on the ranks"):
        wrapped(model, rows())


@of_gloo
def test_gradients_of_several_passes_without_communication(one_rank):
    def accumulated(model):
        with model.no_sync():
            model(rows()).square().mean().backward()
        return trained(model)

    plain = accumulated(DistributedDataParallel(layers()))
    assert same(accumulated(DistributedDataParallel(wrapped(layers(), rows()))), plain)


# ---- Lightning

def test_a_wrapped_module_within_lightnings(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")

    class Regression(lightning.LightningModule):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def training_step(self, batch, index):
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(net):
        module = Regression(net)
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows()), batch_size=16)
        trainer = lightning.Trainer(
            max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path)
        torch.manual_seed(2)
        trainer.fit(module, data)
        return list(module.state_dict().values())

    planned = wrapped(layers(), rows()[:16])
    assert same(fit(planned), fit(layers()))
    assert lowtide.memory(planned).measured_peak > 0
    assert same(list(copy.deepcopy(planned).state_dict().values()),
                list(planned.state_dict().values()))
