"""Puts in order what `follow` saw: from the failing call back to where the value appears first.

Invariant: each step is an evaluation that held the value, or the last one from which it was made.
It must not open files: it names the records and loads that a reader can look up.
"""

import math
import sys

from . import follow, report

_LOADS = ("load", "loadtxt", "genfromtxt", "fromfile", "memmap", "read_csv", "read_parquet", "imread", "safe_open",
          "load_file", "open", "read", "readlines", "loads", "reader", "DictReader", "read_json")
_RANGES = ("arange", "range", "linspace")
_SIZES = ("len", "size", "numel", "dim")
_LONGEST = 40


def find(failure):
    """The path: {"steps": nearest to the failure first, "origin": ...}; None where the failing line held nothing."""
    frames = failure.get("frames") or []
    offence = failure.get("offence") or {}
    if not frames:
        return None
    current = _start(frames[-1], offence)
    if current is None:
        return None
    sample, position = offence.get("sample"), tuple(offence.get("position") or ())
    steps, seen = [], set()
    while current is not None and len(steps) < _LONGEST and id(current) not in seen:
        seen.add(id(current))
        steps.append(current)
        if _is_field(current) or _is_default(current):
            break
        current, position = _before(current, position, sample)
    return _sayable({"steps": [_told(step) for step in steps if step.node.kind != "Name" or step is steps[0]],
                     "origin": _origin(steps)})


def _sayable(value):
    """The same with numbers that JSON does not have as texts."""
    if isinstance(value, dict):
        return {str(key): _sayable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sayable(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if isinstance(value, (str, int, float, type(None))) else repr(value)


def _start(frame, offence):
    position = tuple(offence.get("position") or ())
    best = None
    for event in _all():
        node = event.node
        if node.file != frame["file"] or not node.first <= frame["line"] <= node.last:
            continue
        rank = (_at(event.value, position), _is_tensor(event.value), event.seq)
        if best is None or rank > best[0]:
            best = (rank, event)
    return best[1] if best else None


def _all():
    return [event for kept in follow.events.values() for event in kept]


def _is_tensor(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _at(value, position):
    """Whether the element at a position is the value."""
    if not position:
        return False
    try:
        for at in position:
            value = value[at]
        return follow.holds(value) is not None
    except Exception:
        return False


def _is_field(event):
    """A field of a record, taken by name: the record says where it is from."""
    return event.node.kind == "Subscript" and isinstance(event.node.key, str) and not _is_container(event.value) \
        and any(isinstance(value, dict) for _, _, _, value in event.operands)


def _is_default(event):
    """`table.get(key, default)` that answered its default: the key decides."""
    return event.node.kind == "Call" and event.node.name in ("get", "pop", "setdefault") and not _is_container(event.value) \
        and any(isinstance(value, str) for _, _, _, value in event.operands)


def _is_array(value):
    numpy = sys.modules.get("numpy")
    return _is_tensor(value) or numpy is not None and isinstance(value, numpy.ndarray)


def _is_container(value):
    return _is_array(value) or isinstance(value, (list, tuple, dict))


def _before(event, position, sample):
    """The event from which this one has the value, and the position there."""
    node = event.node
    if _is_container(event.value) and event.value is not None:
        made = [other for other in _all() if other.value is event.value and other.seq < event.seq
                and other.node.kind != "Name"]
        if made:
            return min(made, key=lambda other: other.seq), position
        handed = [other for other in _all() if other.value is event.value and other.seq < event.seq
                  and other.node.returned and node.kind != "Name"]
        if handed:
            return max(handed, key=lambda other: other.seq), position
    if node.element is not None:
        return _element(event, position), position[1:]
    inner = _operand(event, position)
    if inner is not None:
        return inner
    if node.kind == "Call" or node.kind == "Attribute":
        returned = [other for other in _all() if other.seq < event.seq and other.node.returned
                    and other.function in (node.name, "__call__", "forward", "__getitem__")
                    and (other.value is event.value or not _is_container(event.value))]
        if returned:
            return max(returned, key=lambda other: other.seq), position
    if node.kind == "Name":
        bound = [other for other in _all() if other.seq < event.seq and node.name in other.node.targets
                 and other.node.scope == node.scope and other.node.kind != "Name"
                 and (other.frame == event.frame or other.node.scope == ("<module>",))]
        unpacked = [other for other in bound if isinstance(other.value, (tuple, list))
                    and any(part is event.value for part in other.value)]
        if unpacked:
            whole = max(unpacked, key=lambda other: other.seq)
            return whole, (_index_of(whole.value, event.value),) + position
        bound = [other for other in bound if not (_is_container(event.value) and _is_container(other.value))]
        if not bound and not _is_container(event.value):
            bound = [other for other in _all() if other.seq < event.seq and _is_argument(other, event)]
        if bound:
            return max(bound, key=lambda other: other.seq), ()
    if node.kind in ("Name", "Subscript", "Attribute") and _is_container(event.value):
        return _elsewhere(event, position, sample)
    return None, position


def _index_of(parts, wanted):
    return next(at for at, part in enumerate(parts) if part is wanted)


def _is_argument(other, event):
    """Whether an expression is an argument of a call of the function in which a name is read."""
    if other.frame == event.frame or _is_container(other.value) or other.node.number not in _parents():
        return False
    call = follow.nodes[_parents()[other.node.number]]
    return call.kind == "Call" and (call.name == event.function or event.function in ("__init__", "__call__", "forward"))


def _parents():
    if not _above:
        _above.update((inner, node.number) for node in follow.nodes for inner in node.inside)
    return _above


_above = {}


def _element(event, position):
    """The evaluation of a comprehension's element that made the entry at a position."""
    entries = list(follow.events.get(event.node.element, ()))
    entries = [entry for entry in entries if entry.seq < event.seq]
    if isinstance(event.value, list) and position and isinstance(position[0], int):
        at = position[0] if _at(event.value, position[:1]) else event.position[0]
        wanted = event.count.get(event.node.element, 0) - len(event.value) + at + 1
        exact = [entry for entry in entries if entry.count.get(event.node.element) == wanted]
        if exact:
            return exact[0]
    return entries[-1] if entries else None


def _operand(event, position):
    """An operand that held the value; one at the same position before others, data before plain numbers."""
    found = []
    for number, seq, frame, value in event.operands:
        node = follow.nodes[number]
        if node.constant:
            continue
        for other in follow.events.get(number, ()):
            if other.seq == seq:
                at, where = _mapped(event, other, position)
                found.append(((at, bool(_is_container(value)) == bool(_is_container(event.value)), seq), other, where))
    if not found:
        return None
    _, other, where = max(found, key=lambda one: one[0])
    return other, where


def _mapped(event, operand, position):
    """Whether the operand has the value where it must be, and that position."""
    value = operand.value
    if event.node.kind == "Subscript" and not isinstance(event.node.key, str):
        for number, _, _, index in event.operands:
            if type(index) is int and _at(value, (index,) + position):
                return True, (index,) + position
            if _is_tensor(index) and position and follow.nodes[number] is not operand.node:
                try:
                    where = (int(index[position[0]]),) + position[1:]
                except Exception:
                    continue
                if _at(value, where):
                    return True, where
    if event.node.kind == "BinOp" and isinstance(event.value, list) and isinstance(value, list) and position:
        shift = len(event.value) - len(value)
        for where in ((position[0],) + position[1:], (position[0] - shift,) + position[1:]):
            if where[0] >= 0 and _at(value, where):
                return True, where
    if _at(value, position):
        return True, position
    return False, operand.position


def _elsewhere(event, position, sample):
    """Where code that is not the project's (a DataLoader) took the value from: the sample's own data."""
    whole = (sample,) + position[1:] if sample is not None and position else None
    found = []
    for other in _all():
        if other.seq >= event.seq or other.node.kind == "Name" or not _is_container(other.value):
            continue
        if whole and _is_container(other.value) and not isinstance(other.value, dict) and _at(other.value, whole):
            found.append(((_is_array(other.value), other.seq), other, whole))
        elif whole and other.index == sample and other.node.returned:
            found.append(((True, other.seq), other, position[1:]))
    if not found:
        parts = _parts(event.value, position)
        for other in _all():
            if other.seq < event.seq and other.node.kind != "Name" and other.value is not event.value:
                for part, rest in parts:
                    row = _row_of(other.value, part)
                    if row is not None:
                        found.append(((True, other.seq), other, row + rest))
    if not found:
        return None, position
    _, other, where = max(found, key=lambda one: one[0])
    return other, where


def _parts(value, position):
    """Arrays and numbers of arrays around the value, the largest first, each with the position in it."""
    parts = []
    for depth in range(len(position) + 1):
        if _is_array(value):
            parts.append((value, position[depth:]))
        if depth < len(position):
            try:
                value = value[position[depth]]
            except Exception:
                break
    return parts[:2]


def _plain(value):
    """As a NumPy array, in the memory where it lies."""
    if _is_tensor(value):
        with sys.modules["torch"]._C.DisableTorchFunction():
            value = value.detach().numpy()
    return value


def _row_of(whole, part):
    """Where an array is in another: () for equal ones, (row, ...) for a part; None where that is not certain."""
    if not _is_array(whole):
        return None
    try:
        whole, part = _plain(whole), _plain(part)
        apart = whole.ndim - part.ndim
        if whole.dtype != part.dtype or apart < 0 or whole.shape[apart:] != part.shape:
            return None
        if apart and whole.flags.c_contiguous:      # a view: its memory says where it is
            offset = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
            if 0 <= offset < whole.nbytes:
                numpy = sys.modules["numpy"]
                return tuple(int(at) for at in numpy.unravel_index(offset // whole.itemsize, whole.shape)[:apart])
        same = (whole == part).reshape(whole.shape[:apart] + (-1,)).all(axis=-1)
        rows = same.nonzero() if apart else ()
        if not apart:
            return () if part.ndim and same else None
        if len(rows[0]) == 1 or (part.ndim and len(rows[0])):
            return tuple(int(axis[0]) for axis in rows)
    except Exception:
        return None     # not comparable
    return None


def _origin(steps):
    """The last step, as the largest expression of its statement that is on the path, and what it was made from."""
    if not steps:
        return None
    end = steps[-1]
    node = end.node
    outer = end
    for step in steps:
        same = step.node.file == node.file and step.node.first == node.first and step.node.scope == node.scope
        if same and step.node.kind != "Name" and len(step.node.text) > len(outer.node.text) \
                and node.text in step.node.text:
            outer = step
    told = _told(outer)
    told["made_from"] = [{"text": follow.nodes[number].text, "value": _shown(value)}
                         for number, _, _, value in end.operands if _is_data(value)]
    told["texts"] = [value for _, _, _, value in end.operands if isinstance(value, str)][:8]
    told["numbers"] = _numbers(end)
    told["field"] = node.key if isinstance(node.key, str) else None
    told["context"] = [{"depth": depth, "name": name, "value": value} for depth, name, value in end.context]
    told["load"] = node.kind == "Call" and node.name in _LOADS and bool(told["texts"])
    told["first"] = list(end.position)
    told["complete"] = not (_is_container(end.value) and node.kind in ("Name", "Subscript", "Attribute"))
    if node.name in _RANGES:
        bound = _bound(end)
        if bound is not None:
            told.update(_place(bound), made_from=[{"text": node.text, "value": _shown(end.value)}])
    return told


def _numbers(event):
    """What operands of the same shape hold at the value's position: from these it was computed."""
    found = []
    for _, _, _, value in event.operands:
        try:
            if _is_tensor(value) and tuple(value.shape) == tuple(event.value.shape):
                with sys.modules["torch"]._C.DisableTorchFunction():
                    found.append(value.detach()[tuple(event.position)].item())
            elif type(value) in (int, float):
                found.append(value)
        except Exception:
            continue
    return found


def _bound(event):
    """A bound of a range that a call chose, other than a size."""
    for number in event.defined.values():
        node = follow.nodes[number]
        if node.kind == "Call" and node.name not in _SIZES:
            return node
    return None


def _place(node):
    return {"file": node.file, "line": node.line, "function": node.scope[-1], "text": node.text}


def _told(event):
    told = _place(event.node)
    told.update(value=_shown(event.value), position=list(event.position))
    return told


def _is_data(value):
    return _is_container(value) or isinstance(value, (str, int, float, bool, type(None)))


def _shown(value):
    if _is_array(value):
        return "%s %s" % (str(value.dtype).replace("torch.", ""), list(value.shape))
    if isinstance(value, (list, tuple, dict)) and len(value) > 8:
        return "%s of %d" % (type(value).__name__, len(value))
    try:
        shown = repr(value)
    except Exception:
        return type(value).__name__
    return shown if len(shown) <= 120 else shown[:117] + "..."
