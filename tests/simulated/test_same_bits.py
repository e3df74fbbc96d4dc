"""Programs give on the simulated device the bits that they give on the CPU."""

import functools

import pytest
import torch
from both_devices import assert_same_bits, trained
from torch import nn
from torch.nn import functional as F


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
            nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.GroupNorm(4, 16), nn.GELU(),
            nn.MaxPool2d(2), nn.Dropout(0.3), nn.Conv2d(16, 16, 3, groups=4),
            nn.ConvTranspose2d(16, 8, 2), nn.AdaptiveAvgPool2d(2))
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


class Block(nn.Module):
    """A GPT of one layer."""

    def __init__(self, dropout=0.1, heads=4, width=32):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.embed = nn.Embedding(50, width)
        self.place = nn.Embedding(16, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width), nn.Dropout(dropout))
        self.head = nn.Linear(width, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           dropout_p=self.dropout if self.training else 0.0)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return self.head(self.norm2(x + self.mlp(x)))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.body = kind(6, 10, num_layers=2, batch_first=True, **options)
        self.head = nn.Linear(self.body.hidden_size * (2 if self.body.bidirectional else 1), 5)

    def forward(self, x):
        return self.head(self.body(x)[0][:, -1])


def images():
    return torch.randn(4, 3, 12, 12), torch.randint(5, (4,))


def texts():
    tokens = torch.randint(50, (3, 17))
    return tokens[:, :-1], tokens[:, 1:]


def series():
    return torch.randn(3, 7, 6), torch.randint(5, (3,))


def class_loss(model, x, y):
    return F.cross_entropy(model(x), y)


def token_loss(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


conv_program = functools.partial(trained, make_model=ConvNet, make_batch=images, loss_of=class_loss)
text_program = functools.partial(trained, make_model=Block, make_batch=texts, loss_of=token_loss)


@pytest.mark.parametrize("options", [{}, {"foreach": False}, {"foreach": True}, {"fused": True},
                                     {"amsgrad": True, "weight_decay": 0.1}],
                         ids=str)
def test_convolutions_with_adam(options):
    assert_same_bits(functools.partial(conv_program, make_optimizer=torch.optim.Adam, **options))


@pytest.mark.parametrize("optimizer, options", [
    (torch.optim.SGD, {"momentum": 0.9, "foreach": True}),
    (torch.optim.SGD, {"momentum": 0.9, "fused": True}),
    (torch.optim.AdamW, {"fused": True}),
    (torch.optim.Adagrad, {"fused": True}),
    (torch.optim.RMSprop, {"foreach": True}),
], ids=lambda value: getattr(value, "__name__", str(value)))
def test_optimizers(optimizer, options):
    assert_same_bits(functools.partial(text_program, make_optimizer=optimizer, **options))


def test_channels_last():
    def make():
        return ConvNet().to(memory_format=torch.channels_last)

    def batch():
        x, y = images()
        return x.to(memory_format=torch.channels_last), y

    assert_same_bits(functools.partial(conv_program, make_model=make, make_batch=batch))


@pytest.mark.parametrize("dropout", [0.0, 0.1], ids=["fused attention", "attention of parts"])
def test_a_gpt(dropout):
    assert_same_bits(functools.partial(text_program, make_model=lambda: Block(dropout),
                                       make_optimizer=torch.optim.AdamW))


@pytest.mark.parametrize("program", [conv_program, text_program], ids=["convolutions", "gpt"])
def test_autocast(program):
    assert_same_bits(functools.partial(program, autocast=torch.bfloat16))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"bidirectional": True}], ids=str)
def test_recurrent_models(kind, options):
    assert_same_bits(functools.partial(trained, make_model=lambda: Recurrent(kind, **options),
                                       make_batch=series, loss_of=class_loss))


def test_a_recurrent_model_with_autocast():
    assert_same_bits(functools.partial(trained, make_model=lambda: Recurrent(nn.GRU),
                                       make_batch=series, loss_of=class_loss,
                                       autocast=torch.bfloat16))


def test_packed_sequences():
    def program(device):
        torch.manual_seed(3)
        model = nn.LSTM(6, 10).to(device)
        x = torch.randn(7, 3, 6).to(device).requires_grad_()
        packed = nn.utils.rnn.pack_padded_sequence(x, [7, 5, 2])
        assert packed.batch_sizes.device.type == "cpu"
        y, lengths = nn.utils.rnn.pad_packed_sequence(model(packed)[0])
        y.square().sum().backward()
        return [y, lengths, x.grad] + [p.grad for p in model.parameters()]

    assert_same_bits(program)


def test_cells_and_weight_norm():
    def program(device):
        torch.manual_seed(3)
        cells = [nn.LSTMCell(4, 5), nn.GRUCell(4, 5), nn.RNNCell(4, 5)]
        norm = nn.utils.parametrizations.weight_norm(nn.Linear(4, 5))
        x = torch.randn(2, 4).to(device)
        parts = [cells[0].to(device)(x)[1], cells[1].to(device)(x), cells[2].to(device)(x),
                 norm.to(device)(x)]
        sum(part.square().sum() for part in parts).backward()
        return parts + [p.grad for model in [*cells, norm] for p in model.parameters()]

    assert_same_bits(program)


def test_fourier_and_complex_ops():
    def program(device):
        x = torch.randn(5, 8, device=device, requires_grad=True)
        z = torch.fft.rfft(x)
        w = torch.randn(5, 5, dtype=torch.complex64, device=device, requires_grad=True)
        product = w.conj() @ z
        y = torch.fft.irfft(product * z.conj().resolve_conj(), n=8)
        loss = y.square().sum() + product.imag.abs().sum() + torch.fft.fft2(w).real.sum()
        loss.backward()
        neg = product.detach().conj().imag
        spectrum = torch.stft(x.detach().flatten(), 16, window=torch.hann_window(16, device=device),
                              return_complex=True)
        return [z, product, y, loss, x.grad, w.grad, neg, neg + 1, spectrum, torch.angle(z),
                torch.view_as_real(z), w.H @ w, w.detach().conj().clone()]

    assert_same_bits(program)


def test_copies_of_conjugates():
    def program(device):
        z = torch.randn(4, dtype=torch.complex64).to(device)
        into = torch.empty(4, dtype=torch.complex64, device=device)
        return [into.copy_(z.conj()), z.conj().cpu(), z.conj().imag.cpu().contiguous(),
                z.conj().cpu().to(device)]

    assert_same_bits(program)


def test_indices():
    def program(device):
        x = torch.randn(6, 5, device=device, requires_grad=True)
        rows = torch.tensor([4, 0, 4, 2]).to(device)
        parts = [x[rows], x[:, rows[1:]], x[x > 0.3], x.gather(1, rows[:3].expand(6, 3)),
                 x.index_select(0, rows), x.take_along_dim(x.argsort(1), 1),
                 F.one_hot(rows).float(), x.clone().index_put_((rows,), x[:4], accumulate=True),
                 torch.zeros_like(x).scatter_add(0, rows.expand(5, 4).T, x[:4]),
                 x.masked_fill(x < 0, 1.0), x.where(x > 0, 0.5), x.nonzero().float(),
                 x.topk(2)[0], x.sort(0)[0], x.cumsum(0), x.roll(1, 0), x.unfold(0, 2, 1)]
        sum(part.square().sum() for part in parts).backward()
        return parts + [x.grad, rows.unique(), torch.bincount(rows),
                        x.unique(return_counts=True)[1]]

    assert_same_bits(program)


def test_embeddings():
    def program(device):
        torch.manual_seed(3)
        plain = nn.Embedding(9, 4, padding_idx=1).to(device)
        bag = nn.EmbeddingBag(9, 4, mode="mean").to(device)
        tokens = torch.randint(9, (3, 5)).to(device)
        loss = plain(tokens).square().sum() + bag(tokens).square().sum()
        loss.backward()
        return [loss, plain.weight.grad, bag.weight.grad]

    assert_same_bits(program)


def test_attention_kinds():
    def program(device):
        q, k, v = (torch.randn(2, 4, 6, 8, device=device, requires_grad=True) for _ in range(3))
        mask = torch.rand(6, 6, device=device) > 0.3
        mask[:, 0] = True
        bias = torch.randn(6, 6, device=device)
        results = [
            F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
            F.scaled_dot_product_attention(q, k, v, attn_mask=bias),
            F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True),
            F.scaled_dot_product_attention(q, k, v, dropout_p=0.2, scale=0.3)]
        sum(result.square().sum() for result in results).backward()
        torch.manual_seed(3)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(device)
        x = torch.randn(2, 5, 8).to(device)
        torch.manual_seed(4)
        trained = layer(x)
        layer.eval()
        with torch.no_grad():
            fast = layer(x)
        return results + [q.grad, k.grad, v.grad, trained, fast]

    assert_same_bits(program)


def test_linear_algebra():
    def program(device):
        a = torch.randn(5, 5, dtype=torch.float64, device=device)
        spd = a @ a.T + 5 * torch.eye(5, dtype=torch.float64, device=device)
        return [*torch.linalg.qr(a), torch.linalg.cholesky(spd), torch.linalg.solve(spd, a),
                torch.linalg.inv(spd), torch.linalg.svdvals(a), *torch.linalg.eigh(spd),
                torch.linalg.det(a), torch.einsum("ij,kj->ik", a, a), torch.cdist(a, a),
                a.norm(), torch.linalg.vector_norm(a, 3), a.std(), a.quantile(0.3)]

    assert_same_bits(program)


def test_in_place_out_and_views():
    def program(device):
        x = torch.arange(12.0, device=device).view(3, 4)
        out = torch.empty(0, device=device)
        torch.add(x, 1, out=out)
        x[1:, ::2].mul_(3)
        x.T.add_(out.T)
        y = torch.empty(0, device=device).set_(x)
        z = torch.empty(2, device=device).resize_(4, 4).fill_(2)
        y.t_()
        return [x, out, y, z, x.expand(2, 3, 4), x.as_strided((2, 2), (1, 4), 1), x.diagonal(),
                x[None, :, 1], torch.cat([x, out]), x.view(torch.int32), x.to(torch.float16),
                torch.stack([x, x]).flip(0), x.permute(1, 0).contiguous(), x.chunk(2, 1)[1]]

    assert_same_bits(program)


def test_factories():
    def program(device):
        return [torch.zeros(3, device=device), torch.ones(2, dtype=torch.int8, device=device),
                torch.full((2,), 7, device=device), torch.arange(5, device=device),
                torch.linspace(0, 1, 7, device=device), torch.eye(3, device=device),
                torch.tril_indices(3, 3, device=device), torch.tensor([1.5, 2], device=device),
                torch.empty(0, 3, device=device), torch.hann_window(5, device=device),
                torch.scalar_tensor(3, device=device), torch.zeros(3, device=device).new_ones(2)]

    assert_same_bits(program)


def test_second_derivatives():
    def program(device):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Tanh()).to(device)
        x = torch.randn(2, 2, 5, 5).to(device).requires_grad_()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
        return [slope, x.grad] + [p.grad for p in model.parameters() if p.grad is not None]

    assert_same_bits(program)


def test_gradients_of_gradients_are_added_in_the_cpus_order_on_one_thread():
    """Autograd adds them in the order of numbers that each thread counts. The CPU's backward pass
    counts on where the forward pass ended; the thread of a device begins at 0."""
    def numbers():
        x = torch.ones(3, device="simulated", requires_grad=True)
        y = (x * x * x).sum()
        slope, = torch.autograd.grad(y, x, create_graph=True)
        return y.grad_fn._sequence_nr(), slope.grad_fn._sequence_nr()

    def program(device):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(),
                              nn.Linear(20, 1)).to(device)
        x = torch.randn(64, 2).to(device).requires_grad_()
        value = model(x)
        slope, = torch.autograd.grad(value.sum(), x, create_graph=True)
        bend, = torch.autograd.grad(slope[:, 0].sum(), x, create_graph=True)
        (value[:, 0] * slope[:, 0] - bend[:, 1]).square().mean().backward()
        return [p.grad for p in model.parameters()]

    _, of_thread = numbers()
    while torch.ones((), requires_grad=True).exp().grad_fn._sequence_nr() <= 2 * of_thread:
        pass
    before, after = numbers()
    assert after < before
    with torch.autograd.set_multithreading_enabled(False):
        before, after = numbers()
        assert after > before
        assert_same_bits(program)


def test_a_second_derivative_of_a_recurrent_model_is_refused():
    x = torch.randn(3, 2, 4).to("simulated").requires_grad_()
    y = nn.LSTM(4, 4).to("simulated")(x)[0]
    with pytest.raises(NotImplementedError, match="no second derivative"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
