"""Which lines of the project ran, in which order, how often, and which line called which function.

Invariant: only code objects of project files are followed; everything else is told off once and then costs nothing.
`sys.monitoring` from Python 3.12 on, `sys.settrace` before.  Forked workers of the program are not followed.
"""

import sys
import threading
import time

from . import report

_GENERATOR = 0x20 | 0x80 | 0x200
_CALLER_SEARCH = 400    # frames between a call and the project line that caused it, at most


class Tracer:
    """Collects while it is started; `result` is what trace.json holds."""

    def __init__(self):
        self.lines = {}     # id(code) -> (code, {line: [first, count, lines seen by its last execution]})
        self.calls = {}     # (caller file name, line, callee code id) -> count
        self.generators = set()
        self.sequence = 0
        self.begun = time.monotonic()

    def start(self):
        """From here on in all threads of this process."""
        if hasattr(sys, "monitoring"):
            _monitor(self)
        else:
            threading.settrace(self._on_call)
            sys.settrace(self._on_call)

    def stop(self):
        """Ends the following."""
        if hasattr(sys, "monitoring"):
            sys.monitoring.set_events(_TOOL, 0)
            sys.monitoring.free_tool_id(_TOOL)
        else:
            threading.settrace(None)
            sys.settrace(None)

    def entry(self, code):
        """The table of a project's code object; None for code of others."""
        known = self.lines.get(id(code))
        if known is None:
            if report.relative(code.co_filename) is None:
                return None
            known = self.lines[id(code)] = (code, {})   # holding the code keeps its id its own
        return known[1]

    def line(self, code, table, line):
        """One execution of a line."""
        seen = table.get(line)
        if seen is None:
            self.sequence += 1
            seen = table[line] = [self.sequence, 0, 0]
        seen[1] += 1
        seen[2] = self.sequence

    def called(self, code, frame):
        """One call of `code`; `frame` is its caller, and the nearest project line above counts as the cause."""
        for _ in range(_CALLER_SEARCH):
            if frame is None:
                return
            name = frame.f_code.co_filename
            if report.relative(name) is not None:
                key = (name, frame.f_lineno, id(code))
                self.calls[key] = self.calls.get(key, 0) + 1
                return
            frame = frame.f_back

    # --- before 3.12 -------------------------------------------------------------------------------------------------

    def _on_call(self, frame, event, _argument):
        code = frame.f_code
        table = self.entry(code)
        if table is None:
            return None
        if not (code.co_flags & _GENERATOR and id(code) in self.generators):
            if code.co_flags & _GENERATOR:
                self.generators.add(id(code))  # a resumption looks like a call
            self.called(code, frame.f_back)

        def on_line(frame, event, _argument):
            if event == "line":
                self.line(code, table, frame.f_lineno)
            return on_line

        return on_line

    # --- result ------------------------------------------------------------------------------------------------------

    def result(self, failing=None):
        """{"executed": {file: [[line, first, count]...]}, "calls": [[file, line, file, first line, count]...], "until"}.

        "until": the lines that first ran no later than this ran before `failing`, a (file, line), ran for the last time.
        """
        executed, codes, until = {}, {}, None
        for identity, (code, table) in list(self.lines.items()):
            name = report.relative(code.co_filename)
            codes[identity] = (name, code.co_firstlineno)
            lines = executed.setdefault(name, {})
            for line, (first, count, last) in list(table.items()):
                if (name, line) == failing:
                    until = max(until or 0, last)
                if line:
                    seen = lines.setdefault(line, [first, 0])
                    seen[0] = min(seen[0], first)
                    seen[1] += count
        calls = {}
        for (name, line, identity), count in list(self.calls.items()):
            key = (report.relative(name), line) + codes[identity]
            calls[key] = calls.get(key, 0) + count
        return {"executed": {name: sorted([line] + seen for line, seen in lines.items())
                             for name, lines in sorted(executed.items())},
                "until": until,
                "calls": [list(key) + [count] for key, count in sorted(calls.items())],
                "seconds": round(time.monotonic() - self.begun, 6)}


_TOOL = 4


def _monitor(tracer):
    monitoring = sys.monitoring
    events = monitoring.events
    off = monitoring.DISABLE

    lines = tracer.lines
    count = tracer.line

    def on_start(code, _offset):
        if id(code) not in lines:
            if tracer.entry(code) is None:
                return off
            monitoring.set_local_events(_TOOL, code, events.LINE)
        tracer.called(code, sys._getframe(1).f_back)
        return None

    def on_line(code, line):
        known = lines.get(id(code))
        if known is None:
            return off
        count(code, known[1], line)
        return None

    monitoring.use_tool_id(_TOOL, "reduce")
    monitoring.register_callback(_TOOL, events.PY_START, on_start)
    monitoring.register_callback(_TOOL, events.LINE, on_line)
    monitoring.set_events(_TOOL, events.PY_START)
