"""Random graphs in the interchange format: views, several outputs, effects, scratch."""

from hypothesis import strategies as st

BYTES = st.integers(0, 1 << 20)


@st.composite
def graphs(draw, most_ops=12):
    """A graph file as a dictionary; every op reads what exists before it."""
    tensors = [_tensor("weight", draw(BYTES), "resident")]
    ops = []
    for index in range(draw(st.integers(1, most_ops))):
        _add_op(draw, tensors, ops, index)
    values = [i for i, t in enumerate(tensors) if t["kind"] == "value"]
    outputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True))
    return {"format": "lowtide-graph", "version": 1, "name": "random", "cost_unit": "us",
            "tensors": tensors, "ops": ops, "outputs": outputs}


def _tensor(name, size, kind, **more):
    return {"name": name, "bytes": size, "kind": kind, **more}


def _add_op(draw, tensors, ops, index):
    inputs = draw(st.lists(st.integers(0, len(tensors) - 1), min_size=1, max_size=3, unique=True))
    outputs = []
    if draw(st.integers(0, 5)) == 0:
        base = tensors[inputs[0]].get("alias_of", inputs[0])
        outputs.append(len(tensors))
        tensors.append(_tensor(f"view{index}", 0, "value", alias_of=base))
        ops.append({"name": f"view{index}", "type": "test::view", "inputs": inputs[:1],
                    "outputs": outputs, "cost": 0})
        return
    for part in range(draw(st.integers(1, 2))):
        outputs.append(len(tensors))
        tensors.append(_tensor(f"value{index}.{part}", draw(BYTES), "value"))
    ops.append({"name": f"op{index}", "type": "test::op", "inputs": inputs, "outputs": outputs,
                "cost": draw(st.integers(0, 1000)), "workspace_bytes": draw(BYTES),
                "recomputable": draw(st.integers(0, 7)) > 0})
