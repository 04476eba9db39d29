"""The fork server with a real CUDA device: run by name on a machine that has one, with an interpreter that has torch.

`python tests/py/gpu_harness.py` from the repository's root; it fails where there is no device.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from drive import Project, Server  # noqa: E402

ASSERT = """
import torch
print(torch.cuda.get_device_name(0), torch.rand(4, device='cuda').sum().item() > 0)
torch.nn.functional.cross_entropy(torch.rand(4, 3, device='cuda'), torch.tensor([0, 1, 2, 7], device='cuda'))
"""


class OnTheDevice(unittest.TestCase):
    def setUp(self):
        self.project = Project({"train.py": ASSERT})
        self.server = Server(self.project, preload=["torch", "numpy", "torch.utils.data"], device="cuda")
        print(self.server.ready, flush=True)

    def tearDown(self):
        self.server.close()
        self.project.remove()

    def test_cuda_starts_inside_the_walls_in_both_modes(self):
        self.assertFalse(self.server.ready["cuda_initialized"])
        for mode in ("fork", "fork", "exec"):
            got = self.server.trial(mode=mode, launch_blocking=True, witness=True)
            print(mode, got["seconds"], got["outcome"] and got["outcome"]["exception"], flush=True)
            self.assertIn("Assertion", got["stderr"])
            self.assertEqual(got["exit"], 1)
            self.assertIn("device-side assert", got["outcome"]["exception"]["message"])

    def test_an_assert_that_nothing_waits_for_is_printed_before_a_quick_exit(self):
        text = ASSERT.replace("torch.nn.functional", "loss = torch.nn.functional")
        for mode in ("fork", "exec"):
            got = self.server.trial(mode=mode, files={"train.py": text})
            print(mode, got["exit"], got["seconds"], flush=True)
            self.assertIn("Assertion", got["stderr"])

    def test_a_clean_program_and_workers(self):
        text = ("import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
                "d = DataLoader(TensorDataset(torch.arange(8.)), batch_size=2, num_workers=2, pin_memory=True)\n"
                "print(sum(b[0].cuda().sum().item() for b in d), (torch.ones(64, 64).cuda() @ torch.ones(64, 64).cuda())"
                ".sum().item())\n")
        for mode in ("fork", "exec"):
            got = self.server.trial(mode=mode, files={"train.py": text})
            print(mode, got["seconds"], flush=True)
            self.assertEqual((got["stdout"], got["exit"]), ("28.0 262144.0\n", 0), got["stderr"])

    def test_the_same_without_mounts(self):
        server = Server(self.project, preload=["torch"], device="cuda", env={"REDUCE_HARNESS_WITHOUT": "mounts"})
        print(server.ready, flush=True)
        try:
            got = server.trial(launch_blocking=True)
            self.assertIn("Assertion", got["stderr"])
        finally:
            server.close()


if __name__ == "__main__":
    unittest.main()
