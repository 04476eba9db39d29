"""Follows a value: which expressions of the project held it, in which order, and what they were made from.

Invariant: the program computes what it would have computed: each marked expression is evaluated once and handed on.
It costs memory (what held the value is kept alive), so it is a run of its own, never one that is judged.
`follow_path` puts what was seen here in order; this file must not decide where the value came from.
"""

import ast
import builtins
import math
import sys
import time
from collections import deque
from importlib.machinery import SourceFileLoader

from . import report

_NAME = "__reduce_follow__"
_KEPT = 256             # events of one expression
_BYTES = 256 << 20      # of tensors that are kept alive
_LARGEST = 4 << 20      # elements of a tensor or list that is searched
_PATIENCE = 1.0         # seconds for searching the results of one expression
_FRAMES = 6             # callers whose variables are looked at
_PUTS = ("append", "extend", "insert", "add", "appendleft", "fill_", "copy_")
_MARKED = (ast.Call, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.IfExp, ast.Subscript, ast.Attribute, ast.Name,
           ast.ListComp, ast.DictComp, ast.List, ast.Tuple, ast.Dict)


class Node:
    """A marked expression."""

    __slots__ = ("number", "file", "text", "line", "end", "first", "last", "kind", "name", "inside", "targets",
                 "scope", "element", "returned", "constant", "key")

    def __init__(self, number, file, node):
        self.number, self.file = number, file
        self.line, self.end = node.lineno, getattr(node, "end_lineno", node.lineno)
        self.kind = type(node).__name__
        self.inside = []        # numbers of the marked expressions right below
        self.targets = ()       # names that its value is bound to
        self.scope = None
        self.first = self.last = self.line      # lines of its statement
        self.element = None     # of a comprehension: the number of its element
        self.returned = False   # whether its function returns or yields it
        self.constant = not any(isinstance(part, ast.Name) and part.id not in dir(builtins) for part in ast.walk(node))
        self.name = self.text = self.key = None


class Event:
    """One evaluation whose result held the value."""

    __slots__ = ("seq", "node", "frame", "function", "value", "position", "count", "operands", "defined", "context",
                 "index")


nodes = []
events = {}         # number -> deque of events
last = {}           # number -> (sequence, frame id, value)
counts = {}
spent = {}
sequence = 0
kept = 0
frozen = False
target = None       # the value, None for "not finite"
text = None
integer = False


def install(spec):
    """From here on project files are marked as they are compiled."""
    global target, text, integer
    wanted = spec["follow"]
    text = wanted["value"]
    number = float(text)
    integer = text.lstrip("-").isdigit()
    target = (int(text) if integer else number) if math.isfinite(number) else None
    setattr(builtins, _NAME, _note)
    real = SourceFileLoader.get_code

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        if report.relative(path) is None:
            return real(self, fullname)
        return compile(marked(self.get_data(path), path), path, "exec", dont_inherit=True)
    SourceFileLoader.get_code = get_code
    from . import witness
    note = witness.Recorder._note

    def noted(self, *arguments, **named):
        global frozen
        first = not frozen
        frozen = True
        note(self, *arguments, **named)
        if first:
            from . import follow_path
            try:
                report.facts["path"] = follow_path.find(report.facts.get("failure") or {})
            except Exception as trouble:
                report.note("harness", text="follow: %s: %s" % (type(trouble).__name__, trouble))
    witness.Recorder._note = noted


# --- marking ---------------------------------------------------------------------------------------------------------

def marked(source, path):
    """The syntax tree of a project file with its expressions marked; the source itself where that fails."""
    try:
        tree = ast.parse(source, path)
        lines = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
        tree = _Marker(report.relative(path) or path, lines).visit(tree)
        return ast.fix_missing_locations(tree)
    except (SyntaxError, ValueError, RecursionError):
        return source


class _Marker(ast.NodeTransformer):
    def __init__(self, file, source):
        self.file, self.source = file, source
        self.open = [[]]        # numbers of marked expressions, by depth
        self.scope = ("<module>",)
        self.statement = None

    def generic_visit(self, node):
        if isinstance(node, ast.stmt) and hasattr(node, "lineno"):
            outer, self.statement = self.statement, node
            result = super().generic_visit(node)
            self.statement = outer
            return result
        if not isinstance(node, _MARKED) or not self._wanted(node):
            return super().generic_visit(node)
        number = len(nodes)
        entry = Node(number, self.file, node)
        nodes.append(entry)
        entry.text = ast.get_source_segment(self.source, node) or ""
        entry.scope = self.scope
        entry.name = _called(node)
        if self.statement is not None:
            body = getattr(self.statement, "body", None)
            entry.first = self.statement.lineno
            entry.last = body[0].lineno - 1 if isinstance(body, list) and body \
                else getattr(self.statement, "end_lineno", entry.end)
        if isinstance(node, ast.Subscript):
            inner = node.slice.value if type(node.slice).__name__ == "Index" else node.slice
            entry.key = inner.value if isinstance(inner, ast.Constant) else None
        self.open.append([])
        if isinstance(node, ast.Call):
            self._call(node)
        else:
            super().generic_visit(node)
        entry.inside = self.open.pop()
        self.open[-1].append(number)
        if isinstance(node, (ast.ListComp, ast.DictComp)):
            entry.element = _number_of(node.elt if isinstance(node, ast.ListComp) else node.value)
        mark = ast.Call(ast.Name(_NAME, ast.Load()), [ast.Constant(number), node], [])
        return ast.copy_location(mark, node)

    def _wanted(self, node):
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return False
        if isinstance(node, ast.Name):
            return node.id not in ("super", "__class__")
        if isinstance(node, ast.UnaryOp):
            return not isinstance(node.operand, ast.Constant)
        if isinstance(node, ast.Tuple):
            return not any(isinstance(part, (ast.Slice, ast.Starred)) for part in node.elts)
        return True

    def _call(self, node):
        """What is called is no value: of a method its object is marked."""
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        elif not isinstance(node.func, ast.Name):
            node.func = self.visit(node.func)
        node.args = [self.visit(part) for part in node.args]
        node.keywords = [self.visit(part) for part in node.keywords]
        if isinstance(node.func, ast.Attribute) and node.func.attr in _PUTS:
            for part in node.args:
                _bind(part, [node.func.value])

    def visit_JoinedStr(self, node):
        return node

    def visit_AnnAssign(self, node):
        if node.value is not None:
            node.value = self._in(node, node.value)
            _bind(node.value, [node.target])
        return node

    def _in(self, statement, value):
        outer, self.statement = self.statement, statement
        value = self.visit(value)
        self.statement = outer
        return value

    def visit_Assign(self, node):
        node = self.generic_visit(node)
        _bind(node.value, node.targets)
        return node

    def visit_AugAssign(self, node):
        node = self.generic_visit(node)
        _bind(node.value, [node.target])
        return node

    def visit_For(self, node):
        node = self.generic_visit(node)
        _bind(node.iter, [node.target])
        return node

    def visit_Return(self, node):
        node = self.generic_visit(node)
        number = _number_of(node.value)
        if number is not None:
            nodes[number].returned = True
        return node

    visit_Yield = visit_Return

    def _function(self, node):
        outer, self.scope = self.scope, self.scope + (node.name,)
        defaults = node.args
        defaults.defaults = [self.visit(value) for value in defaults.defaults]
        node.body = [self.visit(statement) for statement in node.body]
        self.scope = outer
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function

    def visit_ClassDef(self, node):
        outer, self.scope = self.scope, self.scope + (node.name,)
        node.body = [self.visit(statement) for statement in node.body]
        self.scope = outer
        return node

    def visit_match_case(self, node):
        if node.guard is not None:
            node.guard = self.visit(node.guard)
        node.body = [self.visit(statement) for statement in node.body]
        return node


def _called(node):
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _number_of(node):
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _NAME:
        return node.args[0].value
    return None


def _bind(value, targets):
    number = _number_of(value)
    if number is not None:
        nodes[number].targets = tuple(part.id for one in targets for part in ast.walk(one) if isinstance(part, ast.Name))


# --- watching --------------------------------------------------------------------------------------------------------

def _note(number, value):
    global sequence
    if frozen:
        return value
    sequence += 1
    frame = sys._getframe(1)
    last[number] = (sequence, id(frame), value)
    counts[number] = counts.get(number, 0) + 1
    try:
        begun = time.perf_counter()
        if spent.get(number, 0.0) < _PATIENCE:
            position = holds(value)
            if position is not None:
                _keep(number, value, position, frame)
            spent[number] = spent.get(number, 0.0) + time.perf_counter() - begun
    except Exception:
        spent[number] = _PATIENCE       # not a value that can be searched
    return value


def _keep(number, value, position, frame):
    global kept
    event = Event()
    event.seq, event.node, event.frame, event.function = sequence, nodes[number], id(frame), frame.f_code.co_name
    size = value.numel() * value.element_size() if hasattr(value, "element_size") else getattr(value, "nbytes", 0)
    kept += size
    event.value = value if not size or kept < _BYTES else None
    event.position, event.count = position, dict((n, counts.get(n, 0)) for n in (number, event.node.element)
                                                 if n is not None)
    event.operands = [(inner,) + last[inner] for inner in event.node.inside if inner in last]
    event.defined = _definitions(event) if not isinstance(value, dict) else {}
    event.context = _context(frame)
    event.index = _index_argument(frame)
    events.setdefault(number, deque(maxlen=_KEPT)).append(event)


def _definitions(event):
    """What the plain names among the operands were bound to last, in the same call: {name: number}."""
    found = {}
    for number, seq, frame, value in event.operands:
        node = nodes[number]
        for inner in [number] + node.inside:
            name = nodes[inner].name
            if nodes[inner].kind != "Name" or name in found:
                continue
            best = None
            for other in _bound(nodes[inner].scope, name):
                seen = last.get(other)
                if seen is not None and seen[1] == event.frame and (best is None or seen[0] > best[0]):
                    best = (seen[0], other)
            if best is not None:
                found[name] = best[1]
    return found


_bindings = {}


def _bound(scope, name):
    if len(_bindings) != len(nodes) and _bindings.get(None) != len(nodes):
        _bindings.clear()
        _bindings[None] = len(nodes)
        for node in nodes:
            for one in node.targets:
                _bindings.setdefault((node.scope, one), []).append(node.number)
    return _bindings.get((scope, name), ())


def _index_argument(frame):
    """The index that `__getitem__` was asked for."""
    code = frame.f_code
    if code.co_name == "__getitem__" and code.co_argcount > 1:
        index = frame.f_locals.get(code.co_varnames[1])
        return index if isinstance(index, int) else None
    return None


def _context(frame):
    """Records (dicts, texts, small lists) among the variables of the call and its project callers, nearest first."""
    found, depth = [], 0
    while frame is not None and depth < _FRAMES:
        if report.relative(frame.f_code.co_filename) is not None:
            depth += 1
            for name, value in list(frame.f_locals.items()):
                if name.startswith("__"):
                    continue
                if type(value) is dict and 0 < len(value) <= 64 and all(type(key) is str for key in value):
                    found.append((depth, name, {key: _small(part) for key, part in value.items()}))
                elif type(value) is str and 0 < len(value) <= 2000 and depth < 4:
                    found.append((depth, name, value))
                elif type(value) in (list, tuple) and 1 < len(value) <= 64 and depth < 4 \
                        and all(type(part) in (str, int, float) for part in value):
                    found.append((depth, name, list(value)))
        frame = frame.f_back
    return found[:24]


def _small(value):
    return value if type(value) in (str, int, float, bool, type(None)) and len(str(value)) <= 2000 else "..."


# --- searching -------------------------------------------------------------------------------------------------------

def is_it(value):
    """Whether a plain number or text is the value."""
    kind = type(value)
    if kind is int or kind is float:
        return not math.isfinite(value) if target is None else value == target
    if kind is str:
        return target is not None and len(value) < 40 and value.strip() == text
    if kind is bool or value is None or not hasattr(value, "dtype") or getattr(value, "ndim", 1):
        return False
    return is_it(value.item())


def holds(value, depth=0):
    """Position of the value in a number, text, tensor, array or container: a tuple, or None."""
    kind = type(value)
    if kind is int or kind is float or kind is str:
        return () if is_it(value) else None
    if kind is bool or value is None:
        return None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return in_tensor(torch, value)
    if kind is list or kind is tuple:
        if len(value) > (_LARGEST if depth == 0 else 4096):
            return None
        for at, part in enumerate(value):
            if type(part) is int or type(part) is str:
                if part == target or part == text:
                    return (at,)
                continue
            inner = holds(part, depth + 1) if depth < 2 else () if is_it(part) else None
            if inner is not None:
                return (at,) + inner
        return None
    if kind is dict:
        if len(value) > 4096:
            return None
        for key, part in value.items():
            inner = holds(part, depth + 1) if depth < 2 else () if is_it(part) else None
            if inner is not None:
                return (key,) + inner
        return None
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return in_array(numpy, value)
    return () if is_it(value) else None


def in_array(numpy, array):
    """Position of the first element that is the value."""
    if array.size > _LARGEST * 16 or array.dtype.kind not in "iuf":
        return None
    if target is None and array.dtype.kind != "f":
        return None
    found = ~numpy.isfinite(array) if target is None else array == numpy.asarray(target)
    flat = int(found.argmax()) if found.size else 0
    if not found.size or not found.flat[flat]:
        return None
    return tuple(int(part) for part in numpy.unravel_index(flat, array.shape))


def in_tensor(torch, tensor):
    """The same of a tensor, past the emulated device and the witness."""
    with torch._C.DisableTorchFunction():
        if tensor.layout != torch.strided or tensor.numel() > _LARGEST or tensor.dtype == torch.bool or tensor.is_complex():
            return None
        if target is None and not tensor.is_floating_point():
            return None
        flat = tensor.detach().reshape(-1)
        found = (~torch.isfinite(flat) if target is None else flat == target).nonzero()
        if not found.numel():
            return None
        at, position = int(found[0]), []
        for size in reversed(tuple(tensor.shape)):
            position.append(at % size)
            at //= size
        return tuple(reversed(position))
