"""Drives the fork server by its protocol, for the tests beside it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading

HARNESS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "harness")


def _text(path):
    try:
        with open(path, "rb") as handle:
            return handle.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return None


class Project:
    """A folder with a program in it, and a folder outside of it that must stay as it is."""

    def __init__(self, files):
        self.base = os.path.realpath(tempfile.mkdtemp(prefix="reduce-test-"))
        self.root = os.path.join(self.base, "project")
        self.outside = os.path.join(self.base, "outside")
        os.makedirs(self.outside)
        os.makedirs(self.root)
        for rel, text in files.items():
            self.write(rel, text)

    def write(self, rel, text):
        path = os.path.join(self.root, rel)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as handle:
            handle.write(text if isinstance(text, bytes) else text.encode())
        return path

    def snapshot(self):
        """Names, contents and metadata of all that lies in the project and outside."""
        found = {}
        for top in (self.root, self.outside):
            for folder, names, files in os.walk(top):
                for name in [""] + files:
                    path = os.path.join(folder, name)
                    facts = os.lstat(path)
                    text = b""
                    if name and not os.path.islink(path):
                        with open(path, "rb") as handle:
                            text = handle.read()
                    found[path] = (facts.st_mode, facts.st_uid, facts.st_mtime_ns, facts.st_nlink, text)
        return found

    def remove(self):
        shutil.rmtree(self.base, ignore_errors=True)


class Server:
    """One server process; `trial` runs one trial to its end, `begin` and `wait` do it in two steps."""

    def __init__(self, project, preload=(), env=None, flags=(), python=sys.executable, patience=120, **hello):
        self.project = project
        self.log = tempfile.TemporaryFile()
        environment = dict(os.environ, PYTHONHASHSEED="0", **(env or {}))
        self.process = subprocess.Popen([python, *flags, os.path.join(HARNESS, "server.py")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, env=environment, cwd=project.root,
                                        start_new_session=True)
        self.watchdog = threading.Timer(patience, self.process.kill)
        self.watchdog.daemon = True
        self.watchdog.start()
        self.number = 0
        self.scratches = {}
        self.say(dict({"preload": list(preload), "project": project.root, "device": "cpu"}, **hello))
        self.ready = self.read()

    def say(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise AssertionError("the server is gone: " + self.log.read().decode())
        return json.loads(line)

    def begin(self, target="train.py", argv=(), kind="script", files=None, mode="fork", **spec):
        """Starts a trial; returns its number and the process that runs it."""
        self.number += 1
        self.order(self.number, target, argv, kind, files, mode, **spec)
        first = self.read()
        if "seconds" in first:
            raise AssertionError(first)
        return self.number, first["pid"]

    def order(self, number, target="train.py", argv=(), kind="script", files=None, mode="fork", **spec):
        """Sends the order for a trial and waits for nothing."""
        scratch = tempfile.mkdtemp(prefix="reduce-scratch-")
        for rel, text in (files or {}).items():
            path = os.path.join(scratch, "files", rel)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as handle:
                handle.write(text if isinstance(text, bytes) else text.encode())
        self.scratches[number] = scratch
        self.say(dict({"trial": number, "mode": mode, "scratch": scratch, "project": self.project.root,
                       "workdir": ".", "changed": sorted(files or {}), "removed": [], "seed": 0,
                       "program": {"kind": kind, "target": target, "argv": list(argv)}}, **spec))

    def wait(self, number):
        """The end of a trial that was begun: the message, and what it left in its scratch folder."""
        while True:
            message = self.read()
            if message["trial"] == number and "seconds" in message:
                return self.collect(message)

    def collect(self, message):
        """Adds what a trial left in its scratch folder to its last message."""
        scratch = self.scratches.pop(message["trial"])
        for name in ("stdout", "stderr"):
            message[name] = _text(os.path.join(scratch, name))
        for name in ("outcome", "trace"):
            message[name] = json.loads(_text(os.path.join(scratch, name + ".json")) or "null")
        shutil.rmtree(scratch)      # must work for whoever started the server
        return message

    def trial(self, *args, **spec):
        return self.wait(self.begin(*args, **spec)[0])

    def close(self):
        self.watchdog.cancel()
        self.process.stdin.close()
        code = self.process.wait(20)
        for scratch in self.scratches.values():     # of trials that nobody waited for
            shutil.rmtree(scratch, ignore_errors=True)
        self.process.stdout.close()
        self.log.close()
        return code
