"""Files that a stranger wrote: used, or refused in one line, and in time and memory that are in
proportion to their size."""

import json
import random
import resource
import struct

import pytest
from conftest import TINY, Lowtide
from sweep import sweep

SECONDS, BYTES = 60, 2 << 30
OPS = 4


def limited():
    """Of the processor's time, not of the clock's."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))


def answers(lowtide, *arguments):
    """The result; no fault in the program, and no signal."""
    done = lowtide(*arguments, preexec_fn=limited)
    assert done.code in (0, 2, 3), (done.code, done.err[-1000:])
    if done.code:
        done.fails(done.code)
    assert len(done.err) < 10_000
    return done


def chain(tensor=None, op=None, **root):
    """A chain of ops, with other members in one tensor, in one op, and at the root."""
    tensors = [{"name": f"t{i}", "bytes": 8, "kind": "value"} for i in range(OPS)]
    ops = [{"name": f"o{i}", "type": "op", "inputs": [i - 1] if i else [], "outputs": [i],
            "cost": 10} for i in range(OPS)]
    tensors[1].update(tensor or {})
    ops[1].update(op or {})
    return {"format": "lowtide-graph", "version": 1, "name": "chain", "cost_unit": "us",
            "tensors": tensors, "ops": ops, "outputs": [OPS - 1], **root}


TEXT = json.dumps(chain())
GRAPHS = {
    "many bytes": chain({"bytes": 10**18}), "bytes of 400 digits": chain({"bytes": 10**400}),
    "a cost of 1e308": chain(op={"cost": 1e308}), "a cycle": chain(op={"inputs": [3]}),
    "an index beyond the end": chain(op={"inputs": [2**31 - 1]}),
    "many equal inputs": chain(op={"inputs": [0] * 100_000}),
    "a large workspace": chain(op={"workspace_bytes": 2**62}),
    "a large shape": chain({"shape": [2**31] * 8, "dtype": "f32"}),
    "a long shape": chain({"shape": [1] * 100_000, "dtype": "f32"}),
    "many equal outputs": chain(outputs=[3] * 1_000_000),
    "a view of itself": chain({"alias_of": 1}),
    "a number of a million digits": TEXT.replace('"cost": 10', '"cost": 1' + "0" * 10**6, 1),
    "a number that no type holds": TEXT.replace('"cost": 10', '"cost": 1e999999999', 1),
    "deep values": '{"x":' + "[" * 10**6 + "]" * 10**6 + "," + TEXT[1:],
    "a key many times": TEXT[:-1] + ',"z":0' * 10**5 + "}",
}


@pytest.mark.parametrize("case", sweep(GRAPHS, usual=[
    "many bytes", "a cycle", "many equal inputs", "a number of a million digits", "deep values"]))
def test_a_graph(lowtide, case):
    given = GRAPHS[case]
    (lowtide.folder / "g.json").write_text(given if isinstance(given, str) else json.dumps(given))
    answers(lowtide, "plan", "g.json", "--budget", "100%", "--time-limit", "1")


def test_a_graph_with_a_long_name_is_planned(lowtide):
    (lowtide.folder / "g.json").write_text(json.dumps(chain(name="n" * 10**7)))
    assert answers(lowtide, "plan", "g.json", "--budget", "100%", "--json",
                   "--time-limit", "1").code == 0


def checkpoint(header, data=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data


def tensor(shape, end):
    return {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}


CHECKPOINTS = {
    "a header of 2^63 bytes": struct.pack("<Q", 2**63) + b"{}",
    "a header of more bytes than are there": struct.pack("<Q", 2**40) + b"{}",
    "a tensor of more bytes than are there": checkpoint({"a": tensor([2**40], 2**42)}),
    "sizes whose product overflows": checkpoint({"a": tensor([2**40] * 3, 2**42)}),
    "a negative size": checkpoint({"a": tensor([-1, -4], 16)}, bytes(16)),
    "a deep header": checkpoint(b'{"a":' * 10**6),
    # A reader whose time is quadratic in the names takes minutes.
    "many tensors": checkpoint({f"t{i}": tensor([0], 0) for i in range(200_000)}),
}


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_a_checkpoint(lowtide, case):
    (lowtide.folder / "run.ckpt").write_bytes(CHECKPOINTS[case])
    assert answers(lowtide, "train", "--resume", "run.ckpt", "--steps", "1").code == 2


def test_a_header_that_is_longer_than_safetensors_allows(lowtide):
    with open(lowtide.folder / "run.ckpt", "wb") as file:  # a hole, of no bytes on the disk
        file.write(struct.pack("<Q", 1 << 33))
        file.truncate((1 << 33) + 8)
    lowtide("train", "--resume", "run.ckpt", "--steps", "1",
            preexec_fn=limited).fails(2, "run.ckpt", "header")


@pytest.mark.parametrize("microseconds", ["1e999", "1" + "0" * 400])
def test_a_profile_with_a_number_that_no_type_holds(lowtide, microseconds):
    (lowtide.folder / "p.json").write_text(
        '{"format": "lowtide-profile", "version": 1, "device": "x", "ops": {"a": {"microseconds": '
        + microseconds + "}}}")
    done = answers(lowtide, "train", *TINY, "--steps", "1", "--profile", "p.json")
    assert done.code == 2 and "p.json" in done.err


EXTREMES = [b"-1", b"0", b"1e999", b"1e308", b"9223372036854775807", b"18446744073709551616",
            b"null", b"[]", b"{}", b'""', b"true", b"[" * 100]


def damaged(content, seed):
    """Some bytes changed, numbers replaced, a part cut out or written twice."""
    draw, content = random.Random(seed), bytearray(content)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(content))
        end = min(len(content), at + draw.randint(1, 40))
        kind = draw.choice(["byte", "number", "cut", "twice"])
        if kind == "byte":
            content[at] = draw.randrange(128)  # the harness reads UTF-8
        elif kind == "number":
            digits = [i for i, byte in enumerate(content) if chr(byte).isdigit()]
            at = draw.choice(digits) if digits else at
            content[at:at + 1] = draw.choice(EXTREMES)
        elif kind == "cut":
            del content[at:end]
        else:
            content[at:at] = content[at:end]
        if not content:
            break
    return bytes(content)


CLUSTER = {"format": "lowtide-cluster", "version": 1, "name": "two nodes", "devices_per_node": 2,
           "nodes": [{"count": 2, "device": "a100", "efficiency": 0.6}],
           "within_node": {"bytes_per_second": 3e11, "seconds_per_message": 5e-6},
           "between_nodes": {"bytes_per_second": 2.5e10, "seconds_per_message": 1e-5}}
PLACED = ["--transformer", "--layers", "2", "--width", "16", "--heads", "2", "--vocabulary", "20",
          "--sequence", "8", "--global-batch", "8", "--time-limit", "1"]
SEEDS = sweep(range(100), usual=range(2))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_cluster(lowtide, seed):
    file = lowtide.folder / "cluster.json"
    file.write_bytes(damaged(json.dumps(CLUSTER).encode(), seed))
    answers(lowtide, "parallel", *PLACED, "--cluster", "cluster.json")


@pytest.fixture(scope="module")
def proven(tmp_path_factory, cache):
    """A graph, a plan, and the certificate of its bound."""
    folder = tmp_path_factory.mktemp("proven")
    (folder / "g.json").write_text(json.dumps(chain(outputs=[0, OPS - 1])))
    done = Lowtide(folder, cache)("plan", "g.json", "--budget", "100%", "--time-limit", "1", "-o",
                                  "p.json", "--certificate", "c.json")
    assert done.code == 0, done.err
    return folder


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_certificate_proves_nothing_more(lowtide, proven, seed):
    file = lowtide.folder / "c.json"
    file.write_bytes(damaged((proven / "c.json").read_bytes(), seed))
    done = answers(lowtide, "certify", proven / "g.json", proven / "p.json", "c.json", "--json")
    if done.code == 0:
        cost = json.loads((proven / "p.json").read_text())["cost"]
        assert json.loads(file.read_text())["lower_bound"] <= cost
