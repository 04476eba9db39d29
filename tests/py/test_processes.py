"""Processes and threads that a program starts see the emulated device, and what they know reaches the report.

Run with each torch: `python tests/py/test_processes.py`; trials of a real fork server, in both modes.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from drive import Project, Server  # noqa: E402

WORK = """
import torch

def work(rank, *more):
    x = torch.ones(3, device="cuda") * rank
    assert x.is_cuda and torch.cuda.is_available() and torch.cuda.current_device() == 0
    return x.sum().item()

def fail(rank, *more):
    table = torch.nn.Embedding(4, 2).cuda()
    return table(torch.tensor([rank + 9], device="cuda")).sum().item()

def graph(rank):
    torch.cuda.CUDAGraph()

class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return torch.full((2,), work(i))
"""
HEAD = """
import multiprocessing, torch, worker
import torch.multiprocessing as mp
if __name__ == "__main__":
    """


class ProcessesAndThreads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.project = Project({"train.py": "", "worker.py": WORK})
        cls.server = Server(cls.project, preload=["torch", "torch.multiprocessing", "torch.utils.data"],
                            device="emulated", patience=900)
        if "seconds" not in cls.server.ready:
            raise AssertionError(cls.server.ready)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        cls.project.remove()

    def run_both(self, body, modes=("fork", "exec"), **spec):
        """Runs the body forked and in a fresh interpreter."""
        for mode in modes:
            got = self.server.trial(files={"train.py": HEAD + body.replace("\n", "\n    ")}, mode=mode, witness=True,
                                    launch_blocking=True, **spec)
            yield mode, got

    def clean(self, body, out, **spec):
        for mode, got in self.run_both(body, **spec):
            self.assertEqual((mode, got["exit"], got["stdout"]), (mode, 0, out), got["stderr"])

    def test_a_spawned_process_sees_the_device(self):
        self.clean("with multiprocessing.get_context('spawn').Pool(1) as p: print(p.map(worker.work, [1, 2]))",
                   "[3.0, 6.0]\n")

    def test_a_process_of_a_fork_server_sees_the_device(self):
        self.clean("with multiprocessing.get_context('forkserver').Pool(1) as p: print(p.map(worker.work, [1, 2]))",
                   "[3.0, 6.0]\n", modes=("fork",))

    def test_torch_spawns_its_processes_too(self):
        self.clean("torch.ones(1).cuda(); mp.spawn(worker.work, args=(1,), nprocs=2); print('done')", "done\n", modes=("fork",))

    def test_workers_of_a_loader_may_be_spawned(self):
        self.clean("loader = torch.utils.data.DataLoader(worker.Data(), num_workers=1, multiprocessing_context='spawn')\n"
                   "print([float(b.cuda().sum()) for b in loader])", "[0.0, 6.0, 12.0, 18.0]\n", modes=("fork",))

    def test_threads_see_the_device(self):
        self.clean("from concurrent.futures import ThreadPoolExecutor\n"
                   "with ThreadPoolExecutor(2) as p: print(list(p.map(worker.work, [1, 2])))", "[3.0, 6.0]\n")

    def test_a_failure_in_a_spawned_process_is_known_with_operator_and_line(self):
        for mode, got in self.run_both("mp.spawn(worker.fail, nprocs=1)"):
            self.assertIn("Assertion `srcIndex < srcSelectDimSize` failed", got["stderr"], mode)
            failure = got["outcome"]["failure"]
            self.assertEqual((failure["op"], failure["offence"]["value"], failure["frames"][-1]["file"]),
                             ("torch.nn.functional.embedding", "9", "worker.py"))

    def test_a_failure_in_a_forked_process_is_known_too(self):
        for mode, got in self.run_both("p = mp.get_context('fork').Process(target=worker.fail, args=(0,)); p.start(); p.join()\n"
                                       "raise SystemExit(p.exitcode)"):
            self.assertEqual(got["exit"], 1, got["stderr"])
            self.assertEqual(got["outcome"]["failure"]["frames"][-1]["file"], "worker.py", mode)

    def test_what_a_spawned_process_cannot_do_here_is_not_taken_for_an_answer(self):
        for mode, got in self.run_both("mp.spawn(worker.graph, nprocs=1)", modes=("exec",)):
            self.assertEqual(got["outcome"]["not_emulated"], "CUDA graphs", mode)

    def test_device_memory_is_not_shared_between_processes(self):
        for mode, got in self.run_both("mp.spawn(worker.work, args=(torch.ones(2, device='cuda'),), nprocs=1)", modes=("fork",)):
            self.assertEqual(got["outcome"]["not_emulated"], "CUDA memory shared between processes",
                             mode + got["stderr"])

    def test_a_spawned_process_runs_the_candidate_and_not_the_original(self):
        body = "with multiprocessing.get_context('spawn').Pool(1) as p: print(p.map(worker.work, [1]))"
        for mode in ("fork", "exec"):
            got = self.server.trial(files={"train.py": HEAD + body, "worker.py": WORK.replace("* rank", "* 7")}, mode=mode)
            self.assertEqual(got["stdout"], "[21.0]\n", got["stderr"])


if __name__ == "__main__":
    unittest.main()
